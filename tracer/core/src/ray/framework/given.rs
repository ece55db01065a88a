//! Tables of frameworks that the user gives: read, checked and added to the program's own.

use super::{
    RemedyGoal,
    table::{self, Table},
};

/// A table that was read and has no error. [`add`] adds it.
#[derive(Debug)]
pub struct GivenTable(Table);

/// Reads a table.
///
/// Returns what is wrong with it, in words for the user: JSON that is none, a field that does not
/// exist, a remedy whose key has no row in `settings`.
pub fn parse(text: &str) -> Result<GivenTable, String> {
    let table: Table = serde_json::from_str(text).map_err(|error| error.to_string())?;
    check(&table)?;
    Ok(GivenTable(table))
}

/// Adds these tables, before the program's own. One of the same name replaces its own. It must be
/// called once, before anything is judged.
pub fn add(tables: Vec<GivenTable>) {
    table::give(tables.into_iter().map(|one| one.0).collect());
}

fn check(table: &Table) -> Result<(), String> {
    if table.framework.trim().is_empty() {
        return Err("`framework` is empty: it is the name in the report".to_owned());
    }
    let is_recognized =
        !(table.commands.is_empty() && table.classes.is_empty() && table.prints.is_empty());
    let replaces = super::Framework::ALL
        .iter()
        .any(|one| one.name() == table.framework);
    if !is_recognized && !replaces {
        return Err(
            "nothing says when it runs: give `commands`, words of the command line that starts it, or `classes`, parts of the names of its actors"
                .to_owned(),
        );
    }
    let empty = table.commands.iter().chain(&table.prints);
    let names = table.classes.iter().map(|class| &class.name);
    if empty.chain(names).any(|word| word.trim().is_empty()) {
        return Err(
            "an empty text in `commands`, `prints` or `classes` would fit every program".to_owned(),
        );
    }
    for key in keys(table) {
        let plain = key.trim_start_matches(['-', '+']).replace('-', "_");
        let known = table
            .settings
            .iter()
            .any(|row| super::is_key(&plain, &row.key));
        if !known && !super::is_built_in(&plain) {
            return Err(format!(
                "{key} has no row in `settings`: add {{\"key\": \"{plain}\", \"values\": \"any\", \"effect\": \"remedy-setting\"}}"
            ));
        }
    }
    Ok(())
}

/// Returns every key that a remedy or a bound names.
fn keys(table: &Table) -> Vec<&str> {
    let remedies = table.remedies.iter();
    let remedies = remedies.flat_map(|(_, entries): (&RemedyGoal, _)| entries);
    let mut keys: Vec<&str> = Vec::new();
    for entry in remedies {
        keys.push(&entry.key);
        keys.extend(entry.old_key.as_deref());
        keys.extend(entry.only_if_typed.as_deref());
    }
    for bound in &table.calls {
        keys.push(&bound.key);
        keys.extend(bound.instead.as_deref());
        keys.extend(bound.only_with.iter().map(|(key, _)| key.as_str()));
        keys.extend(
            bound
                .and
                .iter()
                .chain(&bound.trains)
                .chain(&bound.instead_if)
                .map(String::as_str),
        );
    }
    keys.extend(table.ranks.as_deref());
    keys
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example of docs/reference/frameworks.md.
    const OWN: &str = include_str!("../../../../../examples/library/framework.json");

    #[test]
    fn example_of_the_documents_is_right() {
        let table = parse(OWN).expect("a table").0;
        assert_eq!(table.framework, "our-trainer");
        assert_eq!(table.calls[0].key, "train.micro_batch");
    }

    /// Each field of each table is in the JSON Schema of the documents.
    #[test]
    fn schema_has_each_field() {
        let schema = include_str!("../../../../../docs/reference/frameworks.schema.json");
        let schema: serde_json::Value = serde_json::from_str(schema).expect("JSON");
        let tables = super::super::Framework::ALL.map(super::super::Framework::file);
        for text in tables.into_iter().chain([OWN]) {
            let table: serde_json::Value = serde_json::from_str(text).expect("JSON");
            let unknown = unknown_fields(&table, &schema);
            assert!(unknown.is_empty(), "{unknown:?}");
        }
    }

    fn unknown_fields(value: &serde_json::Value, schema: &serde_json::Value) -> Vec<String> {
        use serde_json::Value;
        match value {
            Value::Array(all) => {
                let each = all.iter();
                each.flat_map(|one| unknown_fields(one, &schema["items"]))
                    .collect()
            }
            Value::Object(fields) => {
                let all = fields.iter().map(|(name, value)| {
                    let known = &schema["properties"][name];
                    let schema = if known.is_null() {
                        &schema["additionalProperties"]
                    } else {
                        known
                    };
                    match schema {
                        Value::Object(_) => unknown_fields(value, schema),
                        _ => vec![name.clone()],
                    }
                });
                all.flatten().collect()
            }
            _ => Vec::new(),
        }
    }

    #[test]
    fn error_says_what_to_write() {
        let wrong = |from: &str, to: &str| {
            assert!(OWN.contains(from), "{from}");
            parse(&OWN.replace(from, to)).expect_err("it is wrong")
        };
        let says = wrong("\"effect\": \"moves-to-host\"", "\"effect\": \"host\"");
        assert!(
            says.contains("unknown variant `host`") && says.contains("line"),
            "{says}"
        );
        let says = wrong("\"ranks\"", "\"rank\"");
        assert!(says.contains("unknown field `rank`"), "{says}");
        let says = wrong(
            "\"train_step\", \"key\": \"train.micro_batch\"",
            "\"train_step\", \"key\": \"train.other\"",
        );
        assert!(
            says.contains("train.other has no row in `settings`"),
            "{says}"
        );
        let says = parse("{\"framework\": \"ours\"}").expect_err("it is wrong");
        assert!(says.contains("nothing says when it runs"), "{says}");
        // One of the program's own is recognized already.
        assert!(parse("{\"framework\": \"verl\"}").is_ok());
    }
}
