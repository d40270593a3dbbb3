//! The time that a template sees.

use jiff::civil;

/// A date and a time of day, which some templates write into the system message.
///
/// It is handed in, so that a test can fix it and a server can keep it for a whole conversation: a prompt that
/// changes at midnight finds none of its prefix in the cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Clock(civil::DateTime);

impl Clock {
    /// The time at which templates are tried; none depends on it.
    pub(super) const TRIAL: Clock = Clock(civil::date(2000, 1, 1).at(0, 0, 0, 0));

    /// Now, in this machine's time zone.
    pub fn local() -> Clock {
        Clock(jiff::Zoned::now().datetime())
    }

    /// Midnight of a day, or none if there is no such day.
    pub fn midnight(year: i16, month: i8, day: i8) -> Option<Clock> {
        let date = civil::Date::new(year, month, day).ok()?;
        Some(Clock(date.to_datetime(civil::Time::midnight())))
    }

    /// The time as `strftime` formats it, in English.
    ///
    /// # Errors
    /// If the format has an unknown directive.
    pub(super) fn format(self, format: &str) -> Result<String, jiff::Error> {
        jiff::fmt::strtime::format(format, self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_day_is_written_as_templates_ask_for_it() {
        let clock = Clock::midnight(2026, 11, 30).unwrap();
        for (format, want) in [
            ("%d %b %Y", "30 Nov 2026"),
            ("%Y-%m-%d", "2026-11-30"),
            ("%B %d, %Y", "November 30, 2026"),
            ("%A, %-d %H:%M", "Monday, 30 00:00"),
        ] {
            assert_eq!(clock.format(format).unwrap(), want);
        }
        assert!(clock.format("%!").is_err());
    }

    #[test]
    fn there_is_no_thirtieth_of_february() {
        assert_eq!(Clock::midnight(2026, 2, 30), None);
    }
}
