use super::*;

fn leases() -> (tempfile::TempDir, Leases) {
    let base = tempfile::tempdir().unwrap();
    let leases = Leases::at(&base.path().join("leases")).unwrap();
    (base, leases)
}

fn claim(command: &str) -> Claim {
    Claim { command: command.into(), ..Claim::default() }
}

fn now(leases: &Leases, claim: &Claim) -> Result<Lease, LeaseError> {
    leases.acquire("GPU-1", claim, Some(Duration::ZERO), &mut |_| panic!("waits"))
}

#[test]
fn one_holder_a_gpu_and_the_others_know_whom() {
    let (_base, leases) = leases();
    assert_eq!(leases.holder("GPU-1").unwrap(), None);
    let held = now(&leases, &claim("first")).unwrap();
    let LeaseError::Held(holder) = now(&leases, &claim("second")).unwrap_err() else { panic!("not held") };
    assert_eq!((holder.pid, holder.command.as_deref()), (Some(std::process::id()), Some("first")));
    assert!(!holder.orphaned);
    assert_eq!(leases.holder("GPU-1").unwrap().unwrap().command.as_deref(), Some("first"));
    let other = leases.acquire("GPU-2", &claim("x"), Some(Duration::ZERO), &mut |_| {});
    assert!(other.is_ok(), "another GPU is free");
    drop(held);
    assert_eq!(leases.holder("GPU-1").unwrap(), None);
    now(&leases, &claim("second")).unwrap();
}

#[test]
fn what_runs_under_a_lease_does_not_wait_for_it_and_waits_for_its_like() {
    let (_base, leases) = leases();
    let outer = now(&leases, &claim("gpu -- script")).unwrap();
    assert!(!outer.is_inner());
    let within = |token: String| Claim { within: Some(token), ..claim("eval") };
    let inner = now(&leases, &within(outer.token())).unwrap();
    assert!(inner.is_inner());
    assert!(matches!(now(&leases, &within(outer.token())), Err(LeaseError::Held(_))), "two of them");
    let innermost = now(&leases, &within(inner.token())).unwrap();
    drop((innermost, inner));
    now(&leases, &within(outer.token())).unwrap();
    assert!(matches!(now(&leases, &claim("outside")), Err(LeaseError::Held(_))));
    let foreign = Token::new("GPU-1", 0).unwrap().text();
    assert!(matches!(now(&leases, &within(foreign)), Err(LeaseError::Held(_))), "another's token");
    let elsewhere = outer.token().replace("GPU-1", "GPU-2");
    assert!(matches!(now(&leases, &within(elsewhere)), Err(LeaseError::Held(_))));
    let old = outer.token();
    drop(outer);
    let again = now(&leases, &within(old.clone())).unwrap();
    assert!(!again.is_inner(), "a token is worth nothing after its lease");
    assert!(
        matches!(now(&leases, &within(old)), Err(LeaseError::Held(_))),
        "not even while somebody else holds it"
    );
}

#[test]
fn an_overdue_holder_is_reported_and_left_alone() {
    let (_base, leases) = leases();
    let _held = now(&leases, &Claim { lasts: Some(Duration::ZERO), ..claim("long") }).unwrap();
    std::thread::sleep(Duration::from_millis(5));
    let mut looks = 0;
    let error = leases
        .acquire("GPU-1", &claim("next"), Some(Duration::from_millis(40)), &mut |holder| {
            assert!(holder.overdue(now_ms()).is_some());
            looks += 1;
        })
        .unwrap_err();
    assert!(error.to_string().contains("longer than it said"), "{error}");
    assert!(looks > 1);
}

#[test]
fn a_waiter_gets_the_lease_when_the_holder_lets_go() {
    let (_base, leases) = leases();
    let mut held = Some(now(&leases, &claim("first")).unwrap());
    let lease = leases.acquire("GPU-1", &claim("second"), None, &mut |_| drop(held.take())).unwrap();
    assert_eq!(leases.holder("GPU-1").unwrap().unwrap().command.as_deref(), Some("second"));
    drop(lease);
}

#[test]
fn a_file_that_says_nonsense_is_still_a_lock() {
    let (base, leases) = leases();
    let file = base.path().join("leases/GPU-1.lease");
    std::fs::write(&file, "{\"pid\": -3").unwrap();
    let held = now(&leases, &claim("first")).unwrap();
    std::fs::write(&file, [0xff; 9000]).unwrap();
    let holder = leases.holder("GPU-1").unwrap().unwrap();
    assert_eq!(holder.command, None);
    // The system knows who locked it, unless it hides it.
    assert!(holder.pid.is_none_or(|pid| pid == std::process::id()));
    drop(held);
    assert_eq!(std::fs::read(&file).unwrap(), b"");
}
