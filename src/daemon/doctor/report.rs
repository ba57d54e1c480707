//! What a check comes to: a line for a person, an object for a program, and what to do first.

use std::fmt::Write;

use serde::Serialize;

/// How bad it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Verdict {
    Ok,
    Warning,
    Wrong,
}

/// One check and what it came to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Finding {
    pub(super) verdict: Verdict,
    /// What was looked at: `n1 REST 10.0.0.11:8008`.
    pub(super) subject: String,
    pub(super) words: String,
    /// What to do; none where all is well.
    pub(super) advice: Option<String>,
}

impl Finding {
    pub(super) fn ok(subject: impl Into<String>, words: impl Into<String>) -> Self {
        Self {
            verdict: Verdict::Ok,
            subject: subject.into(),
            words: words.into(),
            advice: None,
        }
    }

    pub(super) fn warning(
        subject: impl Into<String>,
        words: impl Into<String>,
        advice: impl Into<String>,
    ) -> Self {
        Self {
            verdict: Verdict::Warning,
            advice: Some(advice.into()),
            ..Self::ok(subject, words)
        }
    }

    pub(super) fn wrong(
        subject: impl Into<String>,
        words: impl Into<String>,
        advice: impl Into<String>,
    ) -> Self {
        Self {
            verdict: Verdict::Wrong,
            ..Self::warning(subject, words, advice)
        }
    }

    /// `wrong    n1 REST 10.0.0.11:8008: did not answer within 8s → …`
    fn line(&self) -> String {
        let verdict = match self.verdict {
            Verdict::Ok => "ok",
            Verdict::Warning => "warning",
            Verdict::Wrong => "wrong",
        };
        let mut line = format!("{verdict:7}  {}: {}", self.subject, self.words);
        if let Some(advice) = &self.advice {
            let _ = write!(line, " → {advice}");
        }
        line
    }
}

/// All findings, in the order in which they matter: what stands behind is often a consequence.
#[derive(Debug, Serialize)]
pub(super) struct Report {
    pub(super) checks: Vec<Finding>,
    wrong: usize,
    warnings: usize,
    /// What to do first; null when there is nothing to do.
    first: Option<String>,
}

impl Report {
    pub(super) fn of(checks: Vec<Finding>) -> Self {
        let count = |verdict| checks.iter().filter(|c| c.verdict == verdict).count();
        let worst = |verdict| checks.iter().find(|c| c.verdict == verdict);
        let first = worst(Verdict::Wrong).or_else(|| worst(Verdict::Warning));
        let first = first.and_then(|finding| {
            let advice = finding.advice.as_ref()?;
            Some(format!("{}: {advice}", finding.subject))
        });
        Self {
            wrong: count(Verdict::Wrong),
            warnings: count(Verdict::Warning),
            first,
            checks,
        }
    }

    pub(super) fn is_wrong(&self) -> bool {
        self.wrong > 0
    }

    /// A line for each check; the last one says what to do first.
    pub(super) fn page(&self) -> String {
        let mut page: String = self.checks.iter().map(|c| c.line() + "\n").collect();
        let first = self.first.as_deref();
        let last = match (first, self.is_wrong()) {
            (Some(first), true) => format!("do first: {first}"),
            (Some(first), false) => format!("nothing is wrong; have a look at {first}"),
            (None, _) => "nothing is wrong".to_owned(),
        };
        let _ = write!(page, "\n{last}\n");
        page
    }

    pub(super) fn json(&self) -> String {
        match serde_json::to_string(self) {
            Ok(json) => json + "\n",
            Err(error) => format!("{{\"error\":\"{error}\"}}\n"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_line_says_what_to_do_first_and_wrong_goes_before_warning() {
        let all = vec![
            Finding::ok("n1", "answers"),
            Finding::warning("n2", "is slow", "look at it"),
            Finding::wrong("n3", "is gone", "bring it back"),
            Finding::wrong("leader", "nobody leads", "wait"),
        ];

        let report = Report::of(all.clone());
        assert!(report.is_wrong());
        assert_eq!(
            report.page(),
            "ok       n1: answers
warning  n2: is slow → look at it
wrong    n3: is gone → bring it back
wrong    leader: nobody leads → wait

do first: n3: bring it back
"
        );
        let json: serde_json::Value = serde_json::from_str(&report.json()).unwrap();
        assert_eq!(json["first"], "n3: bring it back");
        assert_eq!(json["checks"][2]["verdict"], "wrong");
        assert_eq!((&json["wrong"], &json["warnings"]), (&2.into(), &1.into()));

        let doubts = Report::of(all[..2].to_vec());
        assert!(!doubts.is_wrong());
        let last = "nothing is wrong; have a look at n2: look at it\n";
        assert!(doubts.page().ends_with(last), "{}", doubts.page());
        let well = Report::of(all[..1].to_vec());
        assert_eq!(well.page(), "ok       n1: answers\n\nnothing is wrong\n");
    }
}
