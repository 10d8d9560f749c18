use countersign::canonical_json::{Limits, digest, read};
use countersign::core::Recipe;
use countersign_testing::plain_jcs;

/// The strict reader agrees with the plain second reader on text, code and offset. Canonical text reads back to itself
/// and has the digest of the text that it was read from.
pub fn reader(bytes: &[u8]) -> bool {
    let limits = Limits::default();
    let found = read(bytes, Recipe::Jcs1, &limits);
    let text = found.as_ref().map(|read| read.as_str().to_owned());
    assert_eq!(text.map_err(|error| (error.code(), error.offset())), plain_jcs(bytes), "the plain reader");
    for recipe in [Recipe::Jcs1, Recipe::PicCjson1] {
        let Ok(canonical) = read(bytes, recipe, &limits) else { continue };
        assert_eq!(canonical.value().canonical_text(), canonical.as_str());
        assert_eq!(digest(bytes, recipe, &limits), Ok(canonical.digest()));
        match read(canonical.bytes(), recipe, &limits) {
            Ok(again) => assert_eq!(again.as_str(), canonical.as_str(), "canonical text is its own"),
            // PIC-CJSON refuses integers by their spelling: 1e20 is read, and written as an integer that is not.
            Err(error) => {
                assert_eq!((recipe, error.code()), (Recipe::PicCjson1, "JSON_UNSAFE_INTEGER"), "{error}");
            }
        }
    }
    found.is_ok()
}
