package helm

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"helm.sh/helm/v4/pkg/chart/v2/lint"
	"helm.sh/helm/v4/pkg/chart/v2/lint/support"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	sigs "sigs.k8s.io/yaml"
)

const operatorChart = "kaas-operator"

// operatorValues are the least that the operator's chart takes, and nearly all of it.
var operatorValues = map[string]string{
	"least": `bootstrapServers: kaas:9092`,
	"full": `
replicas: 2
image: {digest: sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef, pullSecrets: [{name: registry}], command: [/operator]}
bootstrapServers: a:9092,b:9092
commandConfig: {secretName: kaas-operator-login}
namespaces: [events]
reservedUsers: ["CN=admin,O=shop", broker]
resync: 1m30s
serviceAccount: {annotations: {a: b}}
podMonitor: {enabled: true, labels: {release: prometheus}}
podLabels: {team: x}
podAnnotations: {a: b}
nodeSelector: {kubernetes.io/os: linux}
tolerations: [{key: x, operator: Exists}]
priorityClassName: system-cluster-critical`,
}

// operators are the manifests of the operator's chart, and its definitions.
func operators(t *testing.T) (all []*unstructured.Unstructured) {
	t.Helper()
	files, err := filepath.Glob(operatorChart + "/crds/*.yaml")
	if err != nil || len(files) != 2 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, decode(t, file, string(b))...)
	}
	for _, v := range operatorValues {
		all = append(all, slices.DeleteFunc(manifestsOf(t, operatorChart, values(t, v)), func(o *unstructured.Unstructured) bool {
			return o.GetKind() == "PodMonitor" // of an operator that is not there
		})...)
	}
	return all
}

func TestOperatorChart(t *testing.T) {
	for name, text := range operatorValues {
		v := values(t, text)
		for _, m := range lint.RunAll(operatorChart, v, namespace).Messages {
			if m.Severity > support.InfoSev {
				t.Errorf("%s: %v", name, m)
			}
		}
		kinds := map[string]int{}
		for _, o := range manifestsOf(t, operatorChart, v) {
			kinds[o.GetKind()]++
			if o.GetLabels()["app.kubernetes.io/instance"] != release || !strings.HasPrefix(o.GetKind(), "Cluster") && o.GetNamespace() != namespace {
				t.Errorf("%s: %s %s is in %q with labels %v", name, o.GetKind(), o.GetName(), o.GetNamespace(), o.GetLabels())
			}
		}
		everywhere := 1 // the operator's Role is one of the whole cluster, unless namespaces are named
		if v["namespaces"] != nil {
			everywhere = 0
		}
		if kinds["Deployment"] != 1 || kinds["ServiceAccount"] != 1 || kinds["ClusterRole"] != everywhere || kinds["Role"] != 2-everywhere {
			t.Errorf("%s: %v", name, kinds)
		}
	}
	for text, want := range map[string]string{
		"replicas: 1":           "where the cluster is has to be said",
		"bootstrapServers: a b": "/bootstrapServers'",
		"resync: often":         "/resync'",
		"reservedUsers: [a;b]":  "/reservedUsers/0'",
		"resync: 0s":            "/resync'",
		"resync: 0m0.9s":        "/resync'",
		"lease: 100ms":          "/lease'",
		"maxRetry: 1ms":         "/maxRetry'",
		"image: {tag: 1.5}":     "/image/tag'",
		"image: {tag: 0}":       "/image/tag'",
		"fullnameOverride: a.b": "/fullnameOverride'",
		"namespace: x":          "additional properties 'namespace' not allowed",
	} {
		if _, err := renderChart(operatorChart, values(t, text), ""); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// What is called 123 is, where a name may begin with a digit, and no key stands twice.
func TestOperatorsTextStays(t *testing.T) {
	for _, text := range []string{
		"{bootstrapServers: 'a:1', fullnameOverride: '123', namespaces: ['2024']}", "{bootstrapServers: 'a:1', nameOverride: '1e3'}", "{bootstrapServers: 'a:1', image: {tag: 20241130}}",
		"{bootstrapServers: 'a:1', podLabels: {app.kubernetes.io/name: mine, team: mine}, podMonitor: {enabled: true, labels: {app.kubernetes.io/instance: mine, team: mine}}}",
	} {
		files, err := renderIn("2024", "123", operatorChart, values(t, text), "")
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		for file, text := range files {
			for doc := range strings.SplitSeq(text, "\n---\n") {
				if !strings.HasSuffix(file, ".yaml") {
					break
				}
				if err := sigs.UnmarshalStrict([]byte(doc), &map[string]any{}); err != nil {
					t.Errorf("%s: %v\n%s", file, err, doc)
				}
			}
		}
		for _, o := range manifestsIn(t, "2024", "123", operatorChart, values(t, text)) {
			for _, path := range [][]string{{"metadata", "name"}, {"metadata", "namespace"}, {"roleRef", "name"}, {"spec", "template", "spec", "serviceAccountName"}} {
				if is, has, err := unstructured.NestedString(o.Object, path...); err != nil || has && is == "" {
					t.Errorf("%s: %s: %v is %q: %v", text, o.GetKind(), path, is, err)
				}
			}
			subjects, _, _ := unstructured.NestedSlice(o.Object, "subjects")
			for _, s := range subjects {
				if s.(map[string]any)["namespace"] != "2024" {
					t.Errorf("%s: %v", text, s)
				}
			}
			selector, _, err := unstructured.NestedStringMap(o.Object, "spec", "selector", "matchLabels")
			labels, pods, lerr := unstructured.NestedStringMap(o.Object, "spec", "template", "metadata", "labels")
			if err := errors.Join(err, lerr); err != nil {
				t.Errorf("%s: %s: %v", text, o.GetKind(), err)
			}
			for key, value := range selector {
				if pods && labels[key] != value {
					t.Errorf("%s: pods have %s %q, and are selected by %q", text, key, labels[key], value)
				}
			}
		}
	}
}

// Nobody is root in the pod, and nothing there can be written to.
func TestOperatorIsConfined(t *testing.T) {
	d := named(t, manifestsOf(t, operatorChart, values(t, operatorValues["least"])), "Deployment", release+"-"+operatorChart)
	get := func(fields ...string) any {
		v, _, err := unstructured.NestedFieldNoCopy(d.Object, append([]string{"spec", "template", "spec"}, fields...)...)
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	c := get("containers").([]any)[0].(map[string]any)["securityContext"].(map[string]any)
	if get("securityContext", "runAsNonRoot") != true || get("securityContext", "seccompProfile", "type") != "RuntimeDefault" ||
		c["readOnlyRootFilesystem"] != true || c["allowPrivilegeEscalation"] != false || c["capabilities"].(map[string]any)["drop"].([]any)[0] != "ALL" {
		t.Errorf("%v, %v", get("securityContext"), c)
	}
}

// An operator elects by the Lease of its release, which is the only one that it may touch: two of
// them work side by side in a namespace, and beside brokers, whose Lease is not theirs.
func TestOperatorHasItsOwnLease(t *testing.T) {
	const flag = "--leader-election-name="
	for name, lease := range map[string]string{"kaas-operator": "kaas-operator", "teamb": "teamb-kaas-operator"} {
		objects := manifestsAs(t, name, operatorChart, values(t, operatorValues["full"]))
		containers, _, _ := unstructured.NestedSlice(named(t, objects, "Deployment", lease).Object, "spec", "template", "spec", "containers")
		args, _, _ := unstructured.NestedStringSlice(containers[0].(map[string]any), "args")
		if !slices.Contains(args, "--reserved-users=CN=admin,O=shop;broker") {
			t.Errorf("%s: users are not kept: %v", name, args)
		}
		if !slices.Contains(args, flag+lease) {
			t.Errorf("%s: elects with %v", name, args)
		}
		got := strings.Join(rights(named(t, objects, "Role", lease+"-lease")), " ")
		if want := "create leases [] get,update leases [" + lease + "] create,patch events [] create,patch events []"; got != want {
			t.Errorf("%s: may %s, want %s", name, got, want)
		}
	}
}

// The page begins where the brokers' chart has them.
func TestOperatorsPageLeadsToTheBrokers(t *testing.T) {
	page, err := os.ReadFile("../../docs/operator.md")
	if err != nil {
		t.Fatal(err)
	}
	service := named(t, manifests(t, nil), "Service", release)
	ports, _, _ := unstructured.NestedSlice(service.Object, "spec", "ports")
	where := fmt.Sprintf("%s:%v", service.GetName(), ports[0].(map[string]any)["port"])
	found := regexp.MustCompile(`bootstrapServers=(\S+)`).FindAllStringSubmatch(string(page), -1)
	for _, m := range found {
		if m[1] != where {
			t.Errorf("it says %s, the Service is %s", m[1], where)
		}
	}
	if len(found) == 0 {
		t.Error("it does not say where brokers are")
	}
}
