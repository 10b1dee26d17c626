//! What an agent is told: the task at first, and what is missing whenever it has left too early.

use kernelseek_core::wording::counted;

/// What the first prompt is made of.
#[derive(Debug, Clone, Copy)]
pub struct Brief<'a> {
    /// Path of the candidate in the workspace.
    pub candidate: &'a str,
    /// Name of the problem.
    pub problem: &'a str,
    /// Folder of the problem, relative to the workspace.
    pub problem_folder: &'a str,
    /// Scenarios in the grid.
    pub scenarios: usize,
    /// Clauses of the goal.
    pub clauses: &'a [String],
    /// The question that is open, as text.
    pub question: Option<&'a str>,
}

/// The task.
#[must_use]
pub fn first(brief: &Brief<'_>) -> String {
    let mut text = format!(
        "Make the kernel in `{}` faster. It solves the problem `{}`, described in `{}`, on {}; every one of them \
         counts. Edit it as you like; what may not change is sealed.\n\nThe goal, judged by the evaluator alone:\n",
        brief.candidate,
        brief.problem,
        brief.problem_folder,
        counted(brief.scenarios, "scenario")
    );
    for clause in brief.clauses {
        text.push_str(&format!("- {clause}\n"));
    }
    text.push_str(
        "\nBefore an edit: `kernelseek hypothesis \"what will change and why\" --layer LAYER --expect RATIO`.\n\
         After it: `kernelseek eval` (about a second with `--quick`). It says what is true, and sometimes asks a question: \
         answer it by a measurement with `kernelseek answer`.\n\
         `kernelseek goal` says what is missing, `kernelseek status` where things stand. When you stop, the goal is judged \
         again; it is met only by an evaluation that is made after you have left.\n",
    );
    if let Some(question) = brief.question {
        text.push_str(&format!("\nA question first:\n{question}\n"));
    }
    text
}

/// What an agent is told that left before the goal was met.
#[must_use]
pub fn again(reason: &str, question: Option<&str>) -> String {
    let mut text = format!("You have stopped, and you are not done: {}\n", reason.trim());
    if let Some(question) = question {
        text.push_str(&format!("\n{question}\n"));
    }
    text.push_str(
        "\nState what you expect with `kernelseek hypothesis` before you edit, then `kernelseek eval`.\n",
    );
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_task_names_candidate_goal_and_question() {
        let clauses = ["every scenario correct".to_owned(), "geomean speedup >= 2".to_owned()];
        let brief = Brief {
            candidate: "kernel.c",
            problem: "softmax",
            problem_folder: "problem",
            scenarios: 17,
            clauses: &clauses,
            question: Some("Which scenario first?"),
        };
        let text = first(&brief);
        for part in ["kernel.c", "17 scenarios", "- geomean speedup >= 2\n", "Which scenario first?"] {
            assert!(text.contains(part), "{text}");
        }
        // Some agents cut what is longer.
        assert!(text.len() < 2_000);
    }

    #[test]
    fn what_is_missing_comes_before_the_question() {
        let text =
            again("the goal is unmet.\n- `every speedup >= 1.1`: 3 of 4", Some("What moves the bytes?"));
        assert!(text.find("3 of 4").unwrap() < text.find("What moves").unwrap());
    }
}
