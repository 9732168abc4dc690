package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// What deploy/image builds, and from what: of brokers unless it is told otherwise. Go and docker
// do nothing here but say what they are asked for, and docker what it is given.
func TestImage(t *testing.T) {
	dir := t.TempDir()
	for name, script := range map[string]string{
		"docker": `[ "$1" = info ] || { echo "docker $*"; for last; do :; done; echo has $(ls "$last"); }`,
		"go": `case "$*" in
"env GOARCH") echo riscv64 ;;
*) echo "go $* for $GOOS, cgo $CGO_ENABLED"
	while [ "$1" != -o ]; do shift; done
	shift
	for p; do case $p in .) touch "$out"operator ;; */) out=$p ;; *) touch "$out$(basename "$p")" ;; esac; done ;;
esac`,
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\n"+script+"\n"), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for args, want := range map[string][]string{
		"":                           {"./server/cmd/kaas ./tools/kaas-meta for linux, cgo 0", "-t kaas:0.1.0 -f deploy/Dockerfile", "has kaas kaas-meta"},
		"reg.example.com/kaas:1":     {"./server/cmd/kaas ./tools/kaas-meta for linux, cgo 0", "-t reg.example.com/kaas:1 -f deploy/Dockerfile", "has kaas kaas-meta"},
		"operator":                   {"go build -C deploy/operator", " . for linux, cgo 0", "-t kaas-operator:0.1.0 -f deploy/operator/Dockerfile", "has operator"},
		"operator reg.example.com/o": {"go build -C deploy/operator", "-t reg.example.com/o -f deploy/operator/Dockerfile", "has operator", "linux/riscv64: docker push reg.example.com/o"},
	} {
		cmd := exec.Command("../image", strings.Fields(args)...)
		cmd.Env = append(os.Environ(), "PATH="+dir+":"+os.Getenv("PATH"))
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Errorf("%q: %v\n%s", args, err, out)
		}
		for _, text := range append(want, "docker build --platform linux/riscv64") {
			if !strings.Contains(string(out), text) {
				t.Errorf("%q: there is no %q in\n%s", args, text, out)
			}
		}
	}
}

// What the page has built, pushed and installed is one image, and the one of the chart's version.
func TestPageHasOneImage(t *testing.T) {
	page, err := os.ReadFile("../../docs/operator.md")
	if err != nil {
		t.Fatal(err)
	}
	chart, err := os.ReadFile("../helm/kaas-operator/Chart.yaml")
	if err != nil {
		t.Fatal(err)
	}
	version := regexp.MustCompile(`(?m)^appVersion: "(.*)"$`).FindSubmatch(chart)
	built := regexp.MustCompile(`(?m)^    deploy/image operator (\S+)$`).FindSubmatch(page)
	pushed := regexp.MustCompile(`(?m)^    docker push (\S+)$`).FindSubmatch(page)
	installed := regexp.MustCompile(`(?m)^    helm install .*$`).FindAllString(string(page), -1)
	if version == nil || built == nil || pushed == nil || len(installed) < 2 {
		t.Fatalf("%s, %s, %s, %s", version, built, pushed, installed)
	}
	name, tag, _ := strings.Cut(string(built[1]), ":")
	if tag != string(version[1]) || string(pushed[1]) != string(built[1]) {
		t.Errorf("%s is built, %s pushed, and the chart has %s", built[1], pushed[1], version[1])
	}
	for _, line := range installed {
		if !strings.Contains(line, fmt.Sprintf(" --set image.repository=%s ", name)) {
			t.Errorf("%s does not have it of %s", line, name)
		}
	}
}
