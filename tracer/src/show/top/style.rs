//! Styles lines: colours, weights and headings.

use ratatui::{
    Frame,
    layout::Rect,
    style::{Color, Modifier, Style},
    text::{Line, Span},
};

use super::Top;

/// Draws lines, one per row, as many as fit.
pub(super) fn lines(frame: &mut Frame<'_>, area: Rect, lines: Vec<Line<'_>>) {
    for (row, line) in area.rows().zip(lines) {
        frame.render_widget(line, row);
    }
}

/// Makes a heading across `width`: `── text ─────`.
pub(super) fn rule(spans: Vec<Span<'static>>, width: u16, strong: bool) -> Line<'static> {
    let style = if strong { bold() } else { faint() };
    let mut line = Line::from(Span::styled("── ", style));
    line.extend(spans);
    let left = usize::from(width).saturating_sub(line.width() + 1);
    line.push_span(Span::styled(format!(" {}", "─".repeat(left)), style));
    line
}

pub(super) fn plain() -> Style {
    Style::new()
}

pub(super) fn bold() -> Style {
    plain().add_modifier(Modifier::BOLD)
}

pub(super) fn faint() -> Style {
    plain().add_modifier(Modifier::DIM)
}

/// How much attention something needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Severity {
    None,
    Care,
    Danger,
}

impl Top {
    /// Returns the style of text that needs attention. Without colours it is bold.
    pub(super) fn severity(&self, severity: Severity) -> Style {
        match (severity, self.colour) {
            (Severity::None, _) => plain(),
            (Severity::Care, true) => plain().fg(Color::Yellow),
            (Severity::Danger, true) => bold().fg(Color::Red),
            (Severity::Care | Severity::Danger, false) => bold(),
        }
    }

    /// Returns a style with this colour, if colours are wanted.
    pub(super) fn tint(&self, colour: Color) -> Style {
        if self.colour {
            plain().fg(colour)
        } else {
            plain()
        }
    }
}
