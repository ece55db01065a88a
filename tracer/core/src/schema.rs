//! JSON Schemas of types whose JSON is written by hand.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};

use crate::{
    contract::DeathJson,
    ids::EventId,
    judge::{
        cause::Command,
        missing::Missing,
        report::{Death, Killer, LinkReason, NoRecording, OutcomeReason, Recovery, Remote, Utc},
    },
};

/// Gives types the schema of a text.
macro_rules! texts {
    ($($type:ident: $description:literal;)*) => {$(
        impl JsonSchema for $type {
            fn schema_name() -> Cow<'static, str> {
                stringify!($type).into()
            }

            fn json_schema(_generator: &mut SchemaGenerator) -> Schema {
                json_schema!({"type": "string", "description": $description})
            }
        }
    )*};
}

texts! {
    Command: "A command as it is typed.";
    LinkReason: "A sentence.";
    Missing: "A sentence.";
    NoRecording: "A sentence.";
    OutcomeReason: "A sentence.";
    Recovery: "A sentence.";
    Remote: "A sentence.";
}

impl JsonSchema for Utc {
    fn schema_name() -> Cow<'static, str> {
        "Utc".into()
    }

    fn json_schema(_generator: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "string",
            "format": "date-time",
            "description": "UTC with microseconds: `2026-11-20T23:58:59.123456Z`.",
        })
    }
}

impl JsonSchema for EventId {
    fn schema_name() -> Cow<'static, str> {
        "EventId".into()
    }

    fn json_schema(_generator: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "integer",
            "minimum": 0,
            "description": "The number of an event in its recording.",
        })
    }
}

impl JsonSchema for Killer {
    fn schema_name() -> Cow<'static, str> {
        "Killer".into()
    }

    fn json_schema(_generator: &mut SchemaGenerator) -> Schema {
        let names: Vec<_> = Self::ALL.iter().map(|killer| killer.name()).collect();
        json_schema!({"type": "string", "enum": names})
    }
}

impl JsonSchema for Death {
    fn schema_name() -> Cow<'static, str> {
        "Death".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        DeathJson::json_schema(generator)
    }
}
