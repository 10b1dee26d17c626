//! How misses are told: each once. What is wrong misses every clause, and its reason in each of them would hide the rest.

use super::judge::{ClauseJudgement, Judgement, Miss};

impl Judgement {
    /// Every clause in order, with those of its misses that no clause before it has told.
    #[must_use]
    pub fn told_once(&self) -> Vec<(&ClauseJudgement, Vec<&Miss>)> {
        let mut told: Vec<(&str, &str)> = Vec::new();
        self.clauses
            .iter()
            .map(|clause| {
                let key = |m: &'_ Miss| told.contains(&(m.scenario.as_str(), m.message.as_str()));
                let fresh: Vec<&Miss> = clause.misses.iter().filter(|m| !key(m)).collect();
                told.extend(fresh.iter().map(|m| (m.scenario.as_str(), m.message.as_str())));
                (clause, fresh)
            })
            .collect()
    }
}

impl std::fmt::Display for Miss {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if !self.scenario.is_empty() {
            write!(f, "{}: ", self.scenario)?;
        }
        f.write_str(&self.message)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reason_that_clauses_share_is_told_with_the_first() {
        let clause = |text: &str, misses: &[(&str, &str)]| {
            let misses: Vec<_> = misses
                .iter()
                .map(|(s, m)| serde_json::json!({"scenario": s, "message": m, "reason": "failed"}))
                .collect();
            serde_json::json!({"clause": text, "met": false, "satisfied": 0, "of": 2, "misses": misses})
        };
        let judgement: Judgement = serde_json::from_value(serde_json::json!({
            "met": false, "blockers": [], "warnings": [],
            "clauses": [clause("a", &[("odd", "wrong")]), clause("b", &[("odd", "wrong"), ("long", "slow")]),
                        clause("c", &[("odd", "wrong")])]
        }))
        .unwrap();
        let told: Vec<(String, Vec<String>)> = judgement
            .told_once()
            .into_iter()
            .map(|(c, m)| (c.clause.clone(), m.iter().map(ToString::to_string).collect()))
            .collect();
        let line =
            |c: &str, m: &[&str]| (c.to_owned(), m.iter().map(|m| (*m).to_owned()).collect::<Vec<_>>());
        assert_eq!(told, [line("a", &["odd: wrong"]), line("b", &["long: slow"]), line("c", &[])]);
    }
}
