//! Builds of a session: recipes, the sandboxed compiler, and several builds at once where one takes seconds.

use crate::event::{Event, Side, Sink};
use crate::runner::SandboxedRunner;
use crate::session::{Session, SessionError, SessionErrorOrBuild};
use kernelseek_core::kernel_file;
use kernelseek_core::problem::{Language as SourceLanguage, Target};
use kernelseek_toolchain::{Build, BuildError, Builder, Cache, Job, Language, Recipe};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

impl Session {
    /// How `source` is built: the problem's recipe, with what the candidate's kernel file adds (`own`) and what a
    /// sanitizer needs (`extra`).
    fn job(&self, source: &Path, own: Recipe, extra: &[&str]) -> Result<Job, BuildError> {
        let problem = &self.files.problem;
        let name = source.file_name().map_or_else(|| source.to_owned(), PathBuf::from);
        fits(problem.target, &name)?;
        let flags: Vec<String> = problem.build.flags.iter().chain(&own.flags).cloned().collect();
        let recipe = Recipe {
            sources: vec![name],
            include_dirs: [vec![self.header_folder().to_owned()], own.include_dirs].concat(),
            defines: own.defines,
            flags: with(&flags, extra),
            link: with(&problem.build.link, extra),
            archs: match problem.target {
                Target::Cuda => self.archs(),
                Target::Cpu => Vec::new(),
            },
            file: own.file,
        };
        Ok(Job { recipe, workspace: source.parent().unwrap_or(Path::new("/")).to_owned() })
    }

    fn builder(&self) -> Result<(Builder<SandboxedRunner>, Cache), SessionError> {
        let scratch = self.settings.state_dir.join("scratch");
        std::fs::create_dir_all(&scratch)
            .map_err(|source| SessionError::File { path: scratch.clone(), source })?;
        let folder = self.settings.build_cache();
        let cache = Cache::open(&folder).map_err(|source| SessionError::File { path: folder, source })?;
        let builder = Builder::new(SandboxedRunner::new(scratch));
        // Templates of C++ headers, translated for the host and again for every architecture.
        let minutes = match self.files.problem.target {
            Target::Cuda => 5,
            Target::Cpu => 1,
        };
        Ok((builder.with_deadline(Duration::from_secs(60 * minutes)), cache))
    }

    pub(crate) fn build_with(
        &self,
        source: &Path,
        side: Side,
        own: Recipe,
        extra: &[&str],
        sink: &mut dyn Sink,
    ) -> Result<Build, SessionErrorOrBuild> {
        sink.on(&Event::Building { side });
        let start = Instant::now();
        let job = self.job(source, own, extra).map_err(SessionErrorOrBuild::Build)?;
        let (builder, cache) = self.builder().map_err(SessionErrorOrBuild::Session)?;
        let build = builder
            .build(self.toolchain(), &job.recipe, &job.workspace, &cache)
            .map_err(SessionErrorOrBuild::Build)?;
        sink.on(&Event::Built { side, cached: build.cached, seconds: start.elapsed().as_secs_f64() });
        Ok(build)
    }

    /// Builds the candidate, and with it the seed and the reference where they are not built yet: a run of nvcc takes
    /// seconds, and three at once hardly more than one. What is wrong with seed or reference is told when they are needed.
    pub(crate) fn build_together(
        &mut self,
        candidate: Option<(&Path, Recipe)>,
        sink: &mut dyn Sink,
    ) -> Result<Option<Build>, SessionErrorOrBuild> {
        // What is built for is what is there.
        if self.settings.archs.is_empty() {
            self.gpu(sink).map_err(SessionErrorOrBuild::Session)?;
        }
        let mut sides = Vec::new();
        let mut jobs = Vec::new();
        let problem = &self.files.problem;
        let others = [
            (Side::Seed, self.seed.is_none(), &problem.seed),
            (Side::Reference, self.reference.is_none(), &problem.reference.source),
        ];
        for (side, wanted, source) in others {
            if !wanted || source.language == SourceLanguage::Python {
                continue;
            }
            if let Ok(path) = self.files.path(&source.path)
                && let Ok(job) = self.job(&path, Recipe::default(), &[])
            {
                sides.push(side);
                jobs.push(job);
            }
        }
        if let Some((path, own)) = candidate {
            sides.push(Side::Candidate);
            jobs.push(self.job(path, own, &[]).map_err(SessionErrorOrBuild::Build)?);
        }
        let (builder, cache) = self.builder().map_err(SessionErrorOrBuild::Session)?;
        for side in &sides {
            sink.on(&Event::Building { side: *side });
        }
        let mut built = None;
        for (side, done) in sides.into_iter().zip(builder.build_many(self.toolchain(), &jobs, &cache)) {
            if let Ok(build) = &done.result {
                let seconds = done.took.as_secs_f64();
                sink.on(&Event::Built { side, cached: build.cached, seconds });
            }
            match (side, done.result) {
                (Side::Seed, build) => self.seed = build.ok(),
                (Side::Reference, build) => self.reference = build.ok(),
                (Side::Candidate, build) => built = Some(build.map_err(SessionErrorOrBuild::Build)?),
            }
        }
        Ok(built)
    }
}

impl Session {
    /// Compiles `candidate` with each of these kernel files, several at once, so that evaluations to come find the builds in
    /// the cache; says how many there are. What cannot be built is told when it is evaluated.
    pub(crate) fn build_ahead(&self, candidate: &Path, kernels: &[String]) -> Result<usize, SessionError> {
        let name = kernel_file::beside(candidate).and_then(|f| f.file_name().map(PathBuf::from));
        let Some(name) = name else { return Ok(0) };
        let mut jobs: Vec<Job> = Vec::new();
        for text in kernels {
            if let Ok(own) = self.recipe_of(candidate, name.clone(), text.clone().into_bytes())?
                && let Ok(job) = self.job(candidate, own.recipe, &[])
                && !jobs.contains(&job)
            {
                jobs.push(job);
            }
        }
        let (builder, cache) = self.builder()?;
        let done = builder.build_many(self.toolchain(), &jobs, &cache);
        Ok(done.iter().filter(|d| d.result.is_ok()).count())
    }
}

impl Session {
    /// Compiles candidates of this problem, several at once, so that evaluations to come find the builds in the cache; says
    /// how many there are. What cannot be built is told when it is evaluated.
    ///
    /// # Errors
    /// When there is no GPU to compile for, or the cache cannot be opened.
    pub fn build_candidates_ahead(
        &mut self,
        candidates: &[PathBuf],
        sink: &mut dyn Sink,
    ) -> Result<usize, SessionError> {
        if self.settings.archs.is_empty() {
            self.gpu(sink)?;
        }
        let mut jobs: Vec<Job> = Vec::new();
        for path in candidates {
            let Ok(path) = path.canonicalize() else { continue };
            if let Ok(own) = self.kernel_recipe(&path)?
                && let Ok(job) = self.job(&path, own.recipe, &[])
            {
                jobs.push(job);
            }
        }
        let (builder, cache) = self.builder()?;
        let done = builder.build_many(self.toolchain(), &jobs, &cache);
        Ok(done.iter().filter(|d| d.result.is_ok()).count())
    }
}

/// Whether a problem of this target can have a source of this name.
fn fits(target: Target, name: &Path) -> Result<(), BuildError> {
    let language = Language::of(name)?;
    let reason = match (target, language) {
        (Target::Cpu, Language::C | Language::Cxx) | (Target::Cuda, Language::Cuda) => return Ok(()),
        (Target::Cpu, Language::Cuda) => "the problem's target is cpu, which takes C and C++",
        (Target::Cuda, Language::C | Language::Cxx) => {
            "the problem's target is cuda, which takes sources that end in .cu"
        }
    };
    Err(BuildError::Unsupported { path: name.to_owned(), language: language.name(), reason })
}

fn with(flags: &[String], extra: &[&str]) -> Vec<String> {
    flags.iter().cloned().chain(extra.iter().map(|f| (*f).to_owned())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::{Column, Effort, Mode, Settings, Tier};
    use kernelseek_toolchain::CudaPlaces;

    fn settings(state_dir: PathBuf, nvcc: Option<PathBuf>) -> Settings {
        let path = std::env::split_paths(&std::env::var_os("PATH").unwrap_or_default()).collect();
        Settings {
            state_dir,
            helper: PathBuf::from("/bin/false"),
            cc: None,
            cxx: None,
            cuda: CudaPlaces { nvcc, ..CudaPlaces::default() },
            archs: vec!["sm_90a".into()],
            python: None,
            path,
            tier: Tier::Quick,
            mode: Mode::Cold,
            column: Column::Device,
            gpu: None,
            gpu_leases: None,
            gpu_lease: None,
            sanitize: Vec::new(),
            effort: Effort::of(Tier::Quick),
            set: None,
            only: Vec::new(),
            secret: [0; 32],
            namespaces: true,
            lockdown: true,
            suspicious: 1.5,
            candidate_flags: None,
            calibrate: false,
        }
    }

    /// A copy of the fixture and a session on it; `None`, and a word about it, without a C++ compiler and nvcc.
    fn session(folder: &Path, candidate: &str) -> Option<Session> {
        let fixture =
            Path::new(env!("CARGO_MANIFEST_DIR")).join("../kernelseek/tests/fixtures/cuda_rowscale");
        for entry in std::fs::read_dir(fixture).unwrap() {
            let path = entry.unwrap().path();
            std::fs::copy(&path, folder.join(path.file_name().unwrap())).unwrap();
        }
        std::fs::copy(folder.join("seed.cu"), folder.join(candidate)).unwrap();
        let nvcc = std::env::var_os("KERNELSEEK_NVCC").filter(|v| !v.is_empty()).map(PathBuf::from);
        let settings = settings(folder.join("state"), nvcc);
        let session = Session::open(folder, Some(&folder.join(candidate)), &settings).ok()?;
        if let Err(error) = session.toolchain().nvcc() {
            eprintln!("skipped: {error}");
            return None;
        }
        Some(session)
    }

    #[test]
    fn all_sides_are_built_at_once_and_kept() {
        let folder = tempfile::tempdir().unwrap();
        let Some(mut session) = session(folder.path(), "faster.cu") else { return };
        std::fs::write(folder.path().join("reference.cu"), "#include \"none.h\"\n").unwrap();
        let mut said = Vec::new();
        let mut sink = |event: &Event| match event {
            Event::Building { side } => said.push(format!("building {}", side.as_str())),
            Event::Built { side, .. } => said.push(format!("built {}", side.as_str())),
            _ => {}
        };
        let built = session.candidate(&mut sink).unwrap();
        assert!(built.is_ok(), "{built:?}");
        // What is wrong with the reference is not the candidate's fault.
        assert_eq!(
            said,
            ["building seed", "building reference", "building candidate", "built seed", "built candidate"]
        );
        assert!(session.seed.is_some() && session.reference.is_none());
        assert!(!session.candidate_hash().is_empty());
        let build = session.candidate_build().unwrap();
        assert_eq!(build.kernels.len(), 1, "{:?}", build.kernels);
        assert!(session.compiler().starts_with("nvcc "), "{}", session.compiler());
    }

    #[test]
    fn assignments_are_built_before_they_are_evaluated() {
        let folder = tempfile::tempdir().unwrap();
        let Some(mut session) = session(folder.path(), "faster.cu") else { return };
        let kernel = |tile: u32| {
            format!(
                "format = 1\n[[tunable]]\nname = \"tile\"\nvalues = [64, 128]\ndefault = 64\n[build]\nset = {{ tile = {tile} }}\n"
            )
        };
        let path = folder.path().join("faster.cu");
        let kernels = [kernel(64), kernel(128), kernel(64), kernel(7)];
        // The third is the first again, the fourth is none.
        assert_eq!(session.build_ahead(&path, &kernels).unwrap(), 2);
        std::fs::write(folder.path().join("faster.toml"), kernel(128)).unwrap();
        let built = session.candidate_as_built(&path, &mut |_: &Event| {}).unwrap().unwrap();
        assert!(built.cached);
        assert!(built.argv[0].contains(&"-DKS_TILE=128".to_owned()), "{:?}", built.argv);
    }

    #[test]
    fn a_candidate_that_does_not_compile_is_told_by_its_place() {
        let folder = tempfile::tempdir().unwrap();
        let Some(mut session) = session(folder.path(), "faster.cu") else { return };
        std::fs::write(folder.path().join("faster.cu"), "int f() { return x; }\n").unwrap();
        let findings = session.candidate(&mut |_: &Event| {}).unwrap().unwrap_err();
        assert_eq!(findings[0].defence, "built.compile");
        assert!(findings[0].evidence[0].starts_with("faster.cu(1): error"), "{findings:?}");
        assert!(session.seed.is_some() && session.reference.is_some());
    }

    #[test]
    fn a_target_takes_its_own_languages() {
        for (target, name, taken) in [
            (Target::Cpu, "k.c", true),
            (Target::Cpu, "k.cc", true),
            (Target::Cpu, "k.cu", false),
            (Target::Cuda, "k.cu", true),
            (Target::Cuda, "k.cpp", false),
            (Target::Cuda, "k.rs", false),
        ] {
            assert_eq!(fits(target, Path::new(name)).is_ok(), taken, "{target:?} {name}");
        }
    }
}
