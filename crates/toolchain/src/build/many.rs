//! Several builds at once.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use super::{Build, BuildError, Builder};
use crate::cache::Cache;
use crate::command::Runner;
use crate::discover::Toolchain;
use crate::recipe::{Language, Recipe};

/// One of several builds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Job {
    /// What to build.
    pub recipe: Recipe,
    /// Where.
    pub workspace: PathBuf,
}

/// What came of one of several builds.
#[derive(Debug)]
pub struct Done {
    /// The build, or why there is none.
    pub result: Result<Build, BuildError>,
    /// From its own start to its own end.
    pub took: Duration,
}

/// Most builds that run at once: each may need a gigabyte.
const AT_ONCE: usize = 16;

impl<R: Runner + Sync> Builder<R> {
    /// Builds every job, in as many threads as the machine has processors; one after the other where it has one. The
    /// results stand in the order of the jobs. Jobs that are the same are built once each: the cache sorts that out.
    pub fn build_many(&self, toolchain: &Toolchain, jobs: &[Job], cache: &Cache) -> Vec<Done> {
        if jobs.iter().any(|j| matches!(j.recipe.language(), Ok(Language::Cuda))) {
            // Once, rather than in every thread. Each job says for itself that there is none.
            let _ = toolchain.nvcc();
        }
        let one = |job: &Job| {
            let start = Instant::now();
            let result = self.build(toolchain, &job.recipe, &job.workspace, cache);
            Done { result, took: start.elapsed() }
        };
        let width = std::thread::available_parallelism().map_or(1, usize::from).clamp(1, AT_ONCE);
        if width == 1 || jobs.len() < 2 {
            return jobs.iter().map(one).collect();
        }
        let mut done = Vec::with_capacity(jobs.len());
        for some in jobs.chunks(width.max(2)) {
            std::thread::scope(|scope| {
                let running: Vec<_> = some.iter().map(|job| (job, scope.spawn(|| one(job)))).collect();
                // A panic of a build is one of this thread.
                done.extend(running.into_iter().map(|(_, thread)| {
                    thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
                }));
            });
        }
        done
    }
}
