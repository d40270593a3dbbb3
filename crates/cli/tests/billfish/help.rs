//! Help and usage.

use crate::billfish;

#[test]
fn every_command_explains_itself_with_an_example() {
    for command in ["run", "inspect", "eval", "verify"] {
        let help = billfish(&format!("{command} --help")).text();
        assert!(help.contains(&format!("billfish {command} models/tiny-glm")), "{help}");
        assert!(help.contains("--shape"), "{help}");
    }
    let help = billfish("--help").text();
    for command in ["run", "inspect", "eval", "verify"] {
        assert!(help.contains(&format!("billfish {command} ")), "{help}");
    }
}

#[test]
fn wrong_usage_has_exit_code_2() {
    for words in [
        "dance",
        "run",
        "run models/tiny-glm --shape llama-3.2-1b",
        "run models/tiny-glm -p a --temperature -1",
        "run models/tiny-glm -p a --top-p 1.5",
        "run models/tiny-glm -p a -cq 5",
        "run models/tiny-glm -p a -c 0",
        "inspect --shape llama-3.2-1b --bits 9",
        "inspect models/tiny-glm --bits 4",
        "eval models/tiny-glm",
        "eval models/tiny-glm --text README.md --window 64 --stride 65",
    ] {
        let finished = billfish(words);
        assert_eq!((finished.code, finished.stdout.as_str()), (Some(2), ""), "{words}");
        assert!(finished.stderr.starts_with("error: "), "{words}: {}", finished.stderr);
    }
}
