package helm

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"helm.sh/helm/v4/pkg/strvals"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// brokers is the pod of the brokers, as a release with default values has it, and where in it the
// cluster's directory is.
func brokers(t *testing.T) (pod *unstructured.Unstructured, dir string) {
	t.Helper()
	objects := manifests(t, nil)
	text, _, _ := unstructured.NestedString(named(t, objects, "ConfigMap", release).Object, "data", "server.properties")
	for line := range strings.Lines(text) {
		if d, ok := strings.CutPrefix(line, "log.dirs="); ok {
			dir = strings.TrimSpace(d)
		}
	}
	if pod = podOf(named(t, objects, "StatefulSet", release)); pod == nil || dir == "" {
		t.Fatal("brokers have no pod, or no directory")
	}
	return pod, dir
}

// What stands beside the chart finds what a release with default values has: its volume, where
// brokers have it, and their image; and it is who they are.
func TestPodsBesideTheChartFitIt(t *testing.T) {
	broker, dir := brokers(t)
	container := func(c any) (image, mount string) {
		mounts, _, _ := unstructured.NestedSlice(c.(map[string]any), "volumeMounts")
		for _, m := range mounts {
			if m := m.(map[string]any); m["name"] == "data" {
				mount = m["mountPath"].(string)
			}
		}
		return c.(map[string]any)["image"].(string), mount
	}
	about := func(pod *unstructured.Unstructured) (user, group any, claim string, containers []any) {
		user, _, _ = unstructured.NestedFieldNoCopy(pod.Object, "spec", "securityContext", "runAsUser")
		group, _, _ = unstructured.NestedFieldNoCopy(pod.Object, "spec", "securityContext", "runAsGroup")
		volumes, _, _ := unstructured.NestedSlice(pod.Object, "spec", "volumes")
		claim, _, _ = unstructured.NestedString(volumes[0].(map[string]any), "persistentVolumeClaim", "claimName")
		for _, field := range []string{"initContainers", "containers"} {
			some, _, _ := unstructured.NestedSlice(pod.Object, "spec", field)
			containers = append(containers, some...)
		}
		return user, group, claim, containers
	}
	user, group, claim, containers := about(broker)
	image, mount := container(containers[0])
	if user == nil || group == nil || claim == "" || image == "" || filepath.Dir(dir) != mount {
		t.Fatalf("brokers are %v:%v, with %s of %s at %s for %s", user, group, image, claim, mount, dir)
	}
	found := 0
	for _, o := range besides(t) {
		if pod := podOf(o); pod != nil {
			o = pod
		}
		if o.GetKind() != "Pod" {
			continue
		}
		u, g, c, all := about(o)
		if u != user || g != group || c != claim {
			t.Errorf("%s is %v:%v, and has the claim %s", o.GetName(), u, g, c)
		}
		for _, c := range all {
			i, m := container(c)
			args, _, _ := unstructured.NestedStringSlice(c.(map[string]any), "args")
			at := slices.Index(args, "--dir") + 1
			if i != image || m != mount || at == 0 || args[at] != dir && args[at] != mount {
				t.Errorf("%s runs %s %v with the volume at %s; brokers run %s, with %s at %s", o.GetName(), i, args, m, image, dir, mount)
			}
			found++
		}
	}
	if found < 4 { // two users, two probes
		t.Errorf("there are only %d", found)
	}
}

// What the page has its reader run is there: files, values of the chart, the directory in a pod.
func TestThePagesCommandsAreRight(t *testing.T) {
	b, err := os.ReadFile("../../docs/kubernetes.md")
	if err != nil {
		t.Fatal(err)
	}
	page := string(b)
	if _, dir := brokers(t); !strings.Contains(page, "\n    kubectl exec kaas-0 -- /kaas-meta --dir "+dir+" verify\n") {
		t.Errorf("it does not say how to look at %s in a broker's pod", dir)
	}
	for _, m := range regexp.MustCompile(`-f (deploy/\S+)`).FindAllStringSubmatch(page, -1) {
		if _, err := os.Stat("../../" + m[1]); err != nil {
			t.Error(err)
		}
	}
	commands, sets := 0, regexp.MustCompile(`--set (\S+)`)
	for _, line := range regexp.MustCompile(`(?m)^    helm (?:install|upgrade) kaas deploy/helm/kaas .*$`).FindAllString(page, -1) {
		v := map[string]any{}
		for _, m := range sets.FindAllStringSubmatch(line, -1) {
			if err := strvals.ParseInto(strings.ReplaceAll(m[1], "CLASS", "class"), v); err != nil {
				t.Errorf("%s: %v", line, err)
			}
		}
		if _, err := render(v, ""); err != nil {
			t.Errorf("%s: %v", line, err)
		}
		commands++
	}
	if commands < 4 {
		t.Errorf("only %d commands were found", commands)
	}
}
