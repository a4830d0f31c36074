//! Every target over its saved corpus: the short run, without nightly.

use std::fs;
use std::path::{Path, PathBuf};

use edge_fuzz::TARGETS;

fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(name)
}

fn names(dir: &Path) -> Vec<String> {
    let mut names: Vec<String> =
        fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

/// A panic inside names the file by libtest's captured output.
#[test]
fn every_target_holds_over_its_corpus() {
    for target in TARGETS {
        let dir = folder("corpus").join(target.name);
        let (mut accepted, mut refused) = (0, 0);
        for name in names(&dir) {
            println!("{}/{name}", target.name);
            if (target.check)(&fs::read(dir.join(&name)).unwrap()) {
                accepted += 1;
            } else {
                refused += 1;
            }
        }
        assert!(accepted >= 2 && refused >= 2, "{}: {accepted} accepted, {refused} refused", target.name);
    }
}

/// Cut short at every place and with one octet changed, what is accepted stays within its properties.
#[test]
fn every_target_holds_around_its_corpus() {
    for target in TARGETS {
        let dir = folder("corpus").join(target.name);
        for name in names(&dir) {
            let input = fs::read(dir.join(&name)).unwrap();
            println!("{}/{name}", target.name);
            let step = input.len() / 8 + 1;
            for at in (0..input.len()).step_by(step) {
                (target.check)(&input[..at]);
                let mut changed = input.clone();
                changed[at] ^= 1;
                (target.check)(&changed);
            }
        }
    }
}

#[test]
fn every_target_has_a_binary_and_a_corpus() {
    #[derive(serde::Deserialize)]
    struct Manifest {
        bin: Vec<Binary>,
    }
    #[derive(serde::Deserialize)]
    struct Binary {
        name: String,
        path: String,
    }
    let wanted: Vec<String> = TARGETS.iter().map(|target| target.name.to_owned()).collect();
    let manifest: Manifest = toml::from_str(&fs::read_to_string(folder("Cargo.toml")).unwrap()).unwrap();
    for binary in &manifest.bin {
        assert_eq!(binary.path, format!("fuzz_targets/{}.rs", binary.name));
        let source = fs::read_to_string(folder(&binary.path)).unwrap();
        assert!(source.contains(&format!("edge_fuzz::{}::check(input);", binary.name)), "{}", binary.path);
    }
    let binaries: Vec<String> = manifest.bin.into_iter().map(|binary| binary.name).collect();
    assert_eq!(binaries, wanted);
    assert_eq!(names(&folder("corpus")), wanted);
}

#[test]
fn the_corpus_is_small() {
    let files = TARGETS.iter().flat_map(|target| {
        let dir = folder("corpus").join(target.name);
        names(&dir).into_iter().map(move |name| fs::metadata(dir.join(name)).unwrap().len())
    });
    assert!(files.sum::<u64>() < 1 << 20);
}
