//! What people see without a verifier: help, validation, mistakes of configuration. `TRYCMD=overwrite cargo test -p edgectl` writes anew.

#[test]
fn what_people_see() {
    let cases = trycmd::TestCases::new();
    for name in
        ["EDGECTL_URL", "EDGECTL_TOKEN", "EDGECTL_TOKEN_FILE", "EDGECTL_SERVICE_TOKEN", "EDGECTL_SERVICE_TOKEN_FILE"]
    {
        cases.env(name, "");
    }
    cases.case("tests/cmd/*.trycmd");
}
