//! Help and usage.

use crate::billfish;

#[test]
fn every_command_explains_itself_with_an_example() {
    for command in ["run", "inspect", "eval", "bench", "verify"] {
        let help = billfish(&format!("{command} --help")).text();
        assert!(help.contains(&format!("billfish {command} models/tiny-glm")), "{help}");
        assert!(help.contains("--shape"), "{help}");
    }
    let help = billfish("--help").text();
    for command in ["run", "inspect", "eval", "bench", "verify", "pull", "list", "completions"] {
        assert!(help.contains(&format!("billfish {command} ")), "{help}");
    }
}

#[test]
fn the_variables_of_the_hub_are_explained() {
    for command in ["--help", "pull --help"] {
        let help = billfish(command).text();
        for variable in ["HF_HOME", "HF_HUB_CACHE", "HF_HUB_OFFLINE", "HF_TOKEN", "HF_ENDPOINT"] {
            assert!(help.contains(variable), "{help}");
        }
    }
}

#[test]
fn a_shape_that_nobody_knows_is_told_with_those_that_are() {
    let finished = billfish("inspect --shape gpt-7");
    assert!(
        finished.stderr.contains("gpt-7") && finished.stderr.contains("glm-4.7-flash"),
        "{}",
        finished.stderr
    );
}

#[test]
fn completions_of_every_shell_know_the_commands_and_flags() {
    for shell in ["bash", "zsh", "fish", "powershell", "elvish"] {
        let script = billfish(&format!("completions {shell}")).text();
        for word in ["billfish", "verify", "kv-cache-dtype"] {
            assert!(script.contains(word), "{shell}: {word}");
        }
    }
}

#[cfg(unix)]
#[test]
fn bash_completes_with_the_script_that_is_printed_for_it() {
    let script = billfish("completions bash").text();
    let ask = "COMP_WORDS=(billfish ev); COMP_CWORD=1; _billfish billfish ev billfish; echo ${COMPREPLY[@]}";
    let output = std::process::Command::new("bash").arg("-c").arg(format!("{script}\n{ask}")).output();
    let output = output.expect("bash is there, since .ci/run is one of its scripts");
    assert_eq!(String::from_utf8_lossy(&output.stdout), "eval\n", "{output:?}");
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
        "inspect --shape gpt-7",
        "inspect --shape llama-3.2-1b --bits 2.5 --codebook mcg",
        "run --shape llama-3.2-1b --head-bits 3.5 --codebook 3inst -p a",
        "eval models/tiny-glm",
        "eval models/tiny-glm --text README.md --window 64 --stride 65",
        "eval models/tiny-glm --text README.md --max-tokens 0",
        "pull tiny-glm",
        "pull ./models/tiny-glm",
        "completions abacus",
    ] {
        let finished = billfish(words);
        assert_eq!((finished.code, finished.stdout.as_str()), (Some(2), ""), "{words}");
        assert!(finished.stderr.starts_with("error: "), "{words}: {}", finished.stderr);
    }
}
