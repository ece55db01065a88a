//! Tests tables of frameworks that a user gives.

use crate::library::golden;

const OWN: &str = r#"{
  "framework": "our-trainer",
  "starts_workers": true,
  "commands": ["EasyR1/main.py"],
  "settings": [{"key": "our.ranks", "values": "any", "effect": "remedy-setting"}],
  "remedies": {"fewer": [{"key": "our.ranks", "value": "LOWER", "acts_on": ["WorkerDict"]}]}
}"#;

#[test]
fn given_table_has_the_remedies() {
    let recording = golden("gallery-easyr1");
    let remedies = |arguments: &[&str]| {
        let report = recording.report(arguments).json();
        let findings = report["findings"].as_array().expect("findings").clone();
        let many = findings.iter().find(|one| one["rule"] == "many-workers");
        let many = many.expect("many-workers")["remedy"].to_string();
        (many, report["jobs"][0].to_string())
    };
    let (many, job) = remedies(&["--format", "json"]);
    assert!(many.contains("trainer.n_gpus_per_node"), "{many}");
    assert!(!job.contains("our-trainer"), "{job}");
    let file = recording.folder.path().join("own.json");
    std::fs::write(&file, OWN).expect("a table");
    let (many, job) = remedies(&["--format", "json", "--frameworks", "own.json"]);
    assert!(
        many.contains("our.ranks") && !many.contains("n_gpus"),
        "{many}"
    );
    assert!(job.contains("our-trainer"), "{job}");
}

#[test]
fn wrong_table_is_refused() {
    let recording = golden("gallery-easyr1");
    let file = recording.folder.path().join("own.json");
    std::fs::write(&file, OWN.replace("\"acts_on\"", "\"acts\"")).expect("a table");
    let ran = recording.report(&["--frameworks", "own.json"]);
    ran.refused(2, &["own.json", "unknown field `acts`", "line 6"]);
    let ran = recording.report(&["--frameworks", "gone.json"]);
    ran.refused(2, &["cannot read the table gone.json"]);
}
