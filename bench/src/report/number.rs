//! How numbers are written: for people, with as many digits as were asked for, the same on every machine.

/// With commas between thousands: `78,282`, `0.87`.
pub fn spelled(value: f64, digits: u8) -> String {
    let plain = format!("{value:.*}", usize::from(digits));
    let (sign, rest) = plain.strip_prefix('-').map_or(("", plain.as_str()), |rest| ("-", rest));
    let (whole, fraction) = rest.split_once('.').map_or((rest, None), |(whole, fraction)| (whole, Some(fraction)));
    // A value that is no number has no thousands.
    if !whole.bytes().all(|byte| byte.is_ascii_digit()) {
        return plain;
    }
    let mut grouped = String::new();
    for (at, digit) in whole.chars().enumerate() {
        if at > 0 && (whole.len() - at) % 3 == 0 {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    let is_zero = rest.bytes().all(|byte| matches!(byte, b'0' | b'.'));
    let sign = if is_zero { "" } else { sign };
    fraction.map_or_else(|| format!("{sign}{grouped}"), |fraction| format!("{sign}{grouped}.{fraction}"))
}

/// The same with what it is counted in.
pub fn with_unit(value: f64, digits: u8, unit: &str) -> String {
    let number = spelled(value, digits);
    match unit {
        "" => number,
        // Written without a space: `1.5×`.
        "×" => format!("{number}{unit}"),
        _ => format!("{number} {unit}"),
    }
}

/// Six digits that count, which is more than any measurement has: what is saved stays readable.
pub fn rounded(value: f64) -> f64 {
    format!("{value:.5e}").parse().unwrap_or(value)
}
