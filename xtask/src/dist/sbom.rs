//! The list of what the program is made of, as CycloneDX 1.5.

use super::{TARGET, write};
use crate::{Result, workspace};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

/// What every page of results carries, as `crates/report/vendor/README.md` says.
const DRAWING: [(&str, &str); 2] = [("vega", "6.4.0"), ("vega-lite", "6.4.3")];

/// Writes the list.
pub fn list(file: &Path, version: &str) -> Result<PathBuf> {
    let out = workspace::cargo()
        .args([
            "metadata",
            "--format-version",
            "1",
            "--locked",
            "--filter-platform",
            TARGET,
        ])
        .output()
        .map_err(|e| format!("cargo metadata: {e}"))?;
    let all: Value =
        serde_json::from_slice(&out.stdout).map_err(|e| format!("cargo metadata: {e}"))?;
    let used = used_by(&all, "varve-cli");
    let packages = all["packages"].as_array().into_iter().flatten();
    let mut components: Vec<Value> = packages
        .filter(|package| used.iter().any(|id| package["id"] == *id))
        .filter(|package| !package["source"].is_null())
        .map(component)
        .collect();
    components.extend(DRAWING.map(|(name, version)| {
        json!({
            "type": "library",
            "name": name,
            "version": version,
            "purl": format!("pkg:npm/{name}@{version}"),
            "licenses": [{"expression": "BSD-3-Clause"}],
        })
    }));
    components.sort_by_key(|c| c["purl"].to_string());
    let text = json!({
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {"component": {"type": "application", "name": "varve", "version": version}},
        "components": components,
    });
    let text = serde_json::to_string_pretty(&text).map_err(|e| e.to_string())?;
    write(file, format!("{text}\n").as_bytes())?;
    Ok(file.to_path_buf())
}

fn component(package: &Value) -> Value {
    let word = |key: &str| package[key].as_str().unwrap_or_default();
    json!({
        "type": "library",
        "name": word("name"),
        "version": word("version"),
        "purl": format!("pkg:cargo/{}@{}", word("name"), word("version")),
        "licenses": [{"expression": word("license")}],
    })
}

/// The packages that `name` needs to run, itself included, without those of builds and tests.
fn used_by(metadata: &Value, name: &str) -> Vec<Value> {
    let nodes = metadata["resolve"]["nodes"].as_array();
    let nodes = nodes.map_or(&[][..], Vec::as_slice);
    let packages = metadata["packages"].as_array().into_iter().flatten();
    let mut used: Vec<Value> = packages
        .filter(|package| package["name"] == name)
        .map(|package| package["id"].clone())
        .collect();
    let mut next = 0;
    while let Some(id) = used.get(next).cloned() {
        next += 1;
        let node = nodes.iter().find(|node| node["id"] == id);
        let deps = node
            .and_then(|node| node["deps"].as_array())
            .into_iter()
            .flatten();
        for dep in deps {
            let kinds = dep["dep_kinds"].as_array().into_iter().flatten();
            let runs = kinds.filter(|kind| kind["kind"].is_null()).count() > 0;
            if runs && !used.contains(&dep["pkg"]) {
                used.push(dep["pkg"].clone());
            }
        }
    }
    used
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_drawing_libraries_are_those_that_lie_there() {
        let page = workspace::root().join("crates/report/vendor/README.md");
        let page = std::fs::read_to_string(page).unwrap();
        for (name, version) in DRAWING {
            assert!(
                page.contains(&format!("{name} {version} |")),
                "{name} {version}"
            );
        }
    }

    #[test]
    fn what_only_builds_and_tests_need_is_no_part_of_the_program() {
        let dep = |to: &str, kind: Value| json!({"pkg": to, "dep_kinds": [{"kind": kind}]});
        let metadata = json!({
            "packages": [{"name": "top", "id": "t"}, {"name": "a", "id": "a"}],
            "resolve": {"nodes": [
                {"id": "t", "deps": [dep("a", Value::Null), dep("b", json!("build")), dep("d", json!("dev"))]},
                {"id": "a", "deps": [dep("c", Value::Null), dep("t", Value::Null)]},
                {"id": "b", "deps": []}, {"id": "c", "deps": []}, {"id": "d", "deps": []},
            ]},
        });
        assert_eq!(used_by(&metadata, "top"), ["t", "a", "c"].map(Value::from));
        assert!(used_by(&metadata, "none").is_empty());
    }
}
