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

/// Gives types a schema.
macro_rules! schemas {
    ($generator:ident, $($type:ident: $schema:expr;)*) => {$(
        impl JsonSchema for $type {
            fn schema_name() -> Cow<'static, str> {
                stringify!($type).into()
            }

            fn json_schema($generator: &mut SchemaGenerator) -> Schema {
                $schema
            }
        }
    )*};
}

schemas! { _generator,
    Command: text("A command as it is typed.");
    LinkReason: text("A sentence.");
    Missing: text("A sentence.");
    NoRecording: text("A sentence.");
    OutcomeReason: text("A sentence.");
    Recovery: text("A sentence.");
    Remote: text("A sentence.");
    Utc: json_schema!({
        "type": "string",
        "format": "date-time",
        "description": "UTC with microseconds: `2026-11-20T23:58:59.123456Z`.",
    });
    EventId: json_schema!({
        "type": "integer",
        "minimum": 0,
        "description": "The number of an event in its recording.",
    });
    Killer: {
        let names: Vec<_> = Self::ALL.iter().map(|killer| killer.name()).collect();
        json_schema!({"type": "string", "enum": names})
    };
}

schemas! { generator, Death: DeathJson::json_schema(generator); }

fn text(description: &str) -> Schema {
    json_schema!({"type": "string", "description": description})
}
