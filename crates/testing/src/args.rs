#![expect(
    clippy::arithmetic_side_effects,
    clippy::cast_possible_truncation,
    reason = "sizes and choices of a generator for tests"
)]

const WORDS: [&str; 12] = [
    "alpha",
    "Straße",
    "invoice",
    "of",
    "the",
    "quarterly",
    "window",
    "café",
    "report",
    "draft",
    "日本",
    "x",
];

/// Arguments of exactly `bytes` bytes, for benches and tests: nested objects and arrays, names of which about half come
/// unsorted, integers, decimals, negative numbers, short texts with escapes and without, some of them not ASCII.
///
/// The text is compact JSON, valid under `jcs-1`, and the same in every run. The shortest has 26 bytes.
///
/// ```
/// let args = countersign_testing::structured_args(26);
/// assert_eq!(args, br#"{"query":"rust","limit":7}"#);
/// assert_eq!(countersign_testing::structured_args(1 << 10).len(), 1 << 10);
/// ```
///
/// # Panics
/// If `bytes` is below 26.
#[must_use]
pub fn structured_args(bytes: usize) -> Vec<u8> {
    assert!(bytes >= 26, "structured arguments have at least 26 bytes");
    let end = r#"],"memo":""}"#;
    let mut text = String::from(r#"{"to":["ann@example.com","bob@example.com"],"rows":["#);
    let mut dice = Dice(0x9E37_79B9_7F4A_7C15);
    let mut rows: u32 = 0;
    let mut row = row_of(rows, &mut dice);
    while text.len() + row.len() + 1 + end.len() <= bytes {
        text.push_str(if rows > 0 { "," } else { "" });
        text.push_str(&row);
        rows += 1;
        row = row_of(rows, &mut dice);
    }
    if rows == 0 {
        return format!(r#"{{"query":"rust{}","limit":7}}"#, "x".repeat(bytes - 26)).into_bytes();
    }
    text.push_str(r#"],"memo":""#);
    while text.len() + 2 < bytes {
        text.push(char::from(b'a' + (text.len() % 26) as u8));
    }
    text.push_str("\"}");
    text.into_bytes()
}

/// One row of the arguments. Two of the four forms have their names in canonical order.
fn row_of(number: u32, dice: &mut Dice) -> String {
    let (a, b, c) = (dice.word(), dice.word(), dice.word());
    let (few, many) = (dice.roll(100), dice.roll(10_000_000));
    match number % 4 {
        0 => format!(
            r#"{{"id":{many},"name":"{a} {b}","price":{few}.{},"in_stock":{},"tags":["{c}","{b}"]}}"#,
            dice.roll(9) + 1,
            few % 2 == 0,
        ),
        1 => format!(
            r#"{{"at":{{"lat":{few}.{}7,"lon":-{}.{}3}},"kind":"visit","note":"{a} {b}\nsaid \"{c}\" to d\u00e9j\u00e0"}}"#,
            dice.roll(10_000),
            dice.roll(180),
            dice.roll(1_000),
        ),
        2 => format!(
            r#"{{"to":{{"street":"{a} {few}","city":"{b}","zip":"{}"}},"weight":{}.5,"fragile":false,"refs":[{many},-{},0.25,null]}}"#,
            10_000 + dice.roll(90_000),
            dice.roll(40),
            few + 1,
        ),
        _ => {
            // One number in sixteen rows has all digits of a double.
            let whole = if number % 16 == 3 { 1 << 52 } else { 1 << 10 };
            format!(
                r#"{{"amount":{},"currency":"EUR","delta":-0.0{}5,"path":"C:\\{a}\\{c}","score":{}}}"#,
                dice.roll(100_000),
                dice.roll(100),
                (dice.roll(whole) as f64 + 1.0) / whole as f64,
            )
        }
    }
}

/// Pseudo-random choices.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % sides
    }

    fn word(&mut self) -> &'static str {
        WORDS.get(self.roll(WORDS.len() as u64) as usize).copied().unwrap_or_default()
    }
}
