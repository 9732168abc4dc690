package e2e

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
)

func TestJavaConsoleProducer(t *testing.T) {
	cp := needJava(t)
	b := startBroker(t)
	run(t, consoleProducer(t, cp, b.addr))
	wantLines(t, consume(t, b.addr), split(text()))
}

func TestJavaConsoleProducerKilledBroker(t *testing.T) {
	cp := needJava(t)
	b := startBroker(t)
	want := split(text())
	producer := spawn(t, consoleProducer(t, cp, b.addr))
	b.killAt(producer.done, 0.1, 0.5)
	producer.ended(t)
	// It prints a line for each record it gave up and still ends with code 0.
	if out := producer.out.Bytes(); bytes.Contains(out, []byte("ERROR")) {
		t.Fatalf("the producer reports errors:\n%s", tail(out, 4096))
	}
	wantLines(t, consume(t, b.addr), want) // each once
}

// needJava returns the class path of the Java tools.
func needJava(t *testing.T) string {
	t.Helper()
	need(t, "java")
	if cp := os.Getenv("KAAS_E2E_CLASSPATH"); cp != "" {
		return cp
	}
	need(t, "mvn")
	cp, err := mavenClassPath()
	if err != nil {
		t.Fatal(err)
	}
	return cp
}

// mavenClassPath has Maven find the jars, once for all tests.
var mavenClassPath = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "kaas-e2e-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(dir)
	name := filepath.Join(dir, "classpath")
	cmd := exec.Command("mvn", "-B", "-q", "-f", "java/pom.xml",
		"org.apache.maven.plugins:maven-dependency-plugin:3.8.1:build-classpath", "-DincludeScope=runtime", "-Dmdep.outputFile="+name)
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("mvn: %w\n%s", err, tail(out, 4096))
	}
	cp, err := os.ReadFile(name)
	return string(bytes.TrimSpace(cp)), err
})

// consoleProducer reads the text from its standard input. It is idempotent and
// waits for all acknowledgements unless told otherwise.
func consoleProducer(t *testing.T, cp, addr string) *exec.Cmd {
	t.Helper()
	cmd := command(t, "java", "-Dorg.slf4j.simpleLogger.defaultLogLevel=error", "-cp", cp,
		"org.apache.kafka.tools.ConsoleProducer", "--bootstrap-server", addr, "--topic", topic,
		// Its own defaults give a broker 0.3 s to come back.
		"--message-send-max-retries", "2147483647", "--request-timeout-ms", "30000",
		"--command-property", "delivery.timeout.ms=120000")
	f, err := os.Open(textFile(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	cmd.Stdin = f
	return cmd
}
