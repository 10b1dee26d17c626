//! Where the supervisor's time on one GPU went.

use std::time::Duration;

/// What the supervisor does while neither it nor a worker has the GPU do anything.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Chore {
    /// Starting the driver in the supervisor, and having it compile our kernels.
    Open,
    /// Waiting for a process that starts, its driver with it, and loads its library.
    Start,
    /// Waiting for a process that ends.
    End,
    /// Having a scenario's buffers exported and opened.
    Map,
    /// Waiting until all calls of a request have been made behind the gate.
    Arm,
    /// Stopping a worker and letting it go on.
    Stop,
    /// Waiting for a worker's answer once its calls are done.
    Answer,
}

impl Chore {
    /// All of them.
    pub const ALL: [Self; 7] =
        [Self::Open, Self::Start, Self::End, Self::Map, Self::Arm, Self::Stop, Self::Answer];

    /// Its name in records.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Open => "open",
            Self::Start => "start",
            Self::End => "end",
            Self::Map => "map",
            Self::Arm => "arm",
            Self::Stop => "stop",
            Self::Answer => "answer",
        }
    }
}

/// Where the supervisor's time on a GPU went.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Spent {
    /// Waiting for its own work, flushes left out.
    pub work: Duration,
    /// Waiting for flushes.
    pub flush: Duration,
    /// Requests of workers, each from the opening of its gate until the device was idle.
    pub requests: Duration,
    /// Chores, in the order of [`Chore::ALL`].
    pub chores: [Duration; Chore::ALL.len()],
}

impl Spent {
    /// The time that went into a chore.
    #[must_use]
    pub const fn on(&self, chore: Chore) -> Duration {
        self.chores[chore as usize]
    }
    /// Adds to a chore.
    pub(crate) fn add(&mut self, chore: Chore, time: Duration) {
        self.chores[chore as usize] += time;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_chore_has_a_place_of_its_own() {
        let mut spent = Spent::default();
        for (n, chore) in Chore::ALL.into_iter().enumerate() {
            spent.add(chore, Duration::from_secs(n as u64 + 1));
        }
        for (n, chore) in Chore::ALL.into_iter().enumerate() {
            assert_eq!(spent.on(chore), Duration::from_secs(n as u64 + 1), "{}", chore.as_str());
        }
    }
}
