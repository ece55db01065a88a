//! `docs/reference/report.schema.json` is the schema of the types that `--format json` prints.
//!
//! With `INSTA_UPDATE=always` the file is written instead. Whether real reports keep to it is
//! checked by another program: `tests/tests/exports.rs`.

#![allow(clippy::disallowed_methods, reason = "tests read what they have made")]

use std::{env, fs, path::Path};

use raytrace_core::judge::report::Report;
use schemars::generate::SchemaSettings;

#[test]
fn schema_of_the_report_is_up_to_date() {
    let settings = SchemaSettings::draft2020_12().for_serialize();
    let schema = settings.into_generator().into_root_schema_for::<Report>();
    let schema = serde_json::to_string_pretty(&schema).expect("JSON") + "\n";
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/reference/report.schema.json");
    if env::var("INSTA_UPDATE").is_ok_and(|update| update == "always") {
        fs::write(&file, &schema).expect("the schema");
    }
    let written = fs::read_to_string(&file).unwrap_or_default();
    assert!(
        written == schema,
        "docs/reference/report.schema.json is not the schema of the report's types: \
         INSTA_UPDATE=always cargo test -p raytrace --test schema"
    );
}
