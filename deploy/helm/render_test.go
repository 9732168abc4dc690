package helm

import (
	"bytes"
	"cmp"
	"errors"
	"flag"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"helm.sh/helm/v4/pkg/chart/common"
	"helm.sh/helm/v4/pkg/chart/common/util"
	"helm.sh/helm/v4/pkg/chart/v2/lint"
	"helm.sh/helm/v4/pkg/chart/v2/lint/support"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
	"helm.sh/helm/v4/pkg/engine"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"
	sigs "sigs.k8s.io/yaml"
)

var update = flag.Bool("update", false, "write testdata/default.yaml anew")

// Where the tests have the release, and on which Kubernetes.
const (
	kubernetes = "v1.37.2"

	release   = "kaas"
	namespace = "events"
)

// variants are the sets of values in testdata/values, and the default, which is nothing.
func variants(t *testing.T) map[string]map[string]any {
	t.Helper()
	files, err := filepath.Glob("testdata/values/*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]map[string]any{"default": {}}
	for _, file := range files {
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		all[strings.TrimSuffix(filepath.Base(file), ".yaml")] = values(t, string(b))
	}
	if len(all) < 6 {
		t.Fatalf("there are only %v", slices.Sorted(maps.Keys(all)))
	}
	return all
}

func values(t *testing.T, text string) map[string]any {
	t.Helper()
	v := map[string]any{}
	if err := sigs.UnmarshalStrict([]byte(text), &v); err != nil {
		t.Fatal(err)
	}
	return v
}

// render is what Helm makes of values, by the template's name, for a version of Kubernetes.
func render(v map[string]any, version string) (map[string]string, error) {
	return renderChart("kaas", v, version)
}

func renderChart(dir string, v map[string]any, version string) (map[string]string, error) {
	return renderAs(release, dir, v, version)
}

// renderAs renders a release of another name.
func renderAs(release, dir string, v map[string]any, version string) (map[string]string, error) {
	return renderIn(namespace, release, dir, v, version)
}

func renderIn(namespace, release, dir string, v map[string]any, version string) (map[string]string, error) {
	chart, err := loader.Load(dir)
	if err != nil {
		return nil, err
	}
	kube, err := common.ParseKubeVersion(cmp.Or(version, kubernetes))
	if err != nil {
		return nil, err
	}
	caps := common.DefaultCapabilities.Copy()
	caps.KubeVersion = *kube
	all, err := util.ToRenderValues(chart, v, common.ReleaseOptions{Name: release, Namespace: namespace, Revision: 1, IsInstall: true}, caps)
	if err != nil {
		return nil, err
	}
	return engine.Render(chart, all)
}

// manifests are the objects of a rendering, in a fixed order.
func manifests(t *testing.T, v map[string]any) []*unstructured.Unstructured {
	t.Helper()
	return manifestsOf(t, "kaas", v)
}

func manifestsOf(t *testing.T, chart string, v map[string]any) []*unstructured.Unstructured {
	t.Helper()
	return manifestsAs(t, release, chart, v)
}

func manifestsAs(t *testing.T, release, chart string, v map[string]any) []*unstructured.Unstructured {
	t.Helper()
	return manifestsIn(t, namespace, release, chart, v)
}

func manifestsIn(t *testing.T, namespace, release, chart string, v map[string]any) []*unstructured.Unstructured {
	t.Helper()
	files, err := renderIn(namespace, release, chart, v, "")
	if err != nil {
		t.Fatal(err)
	}
	var objects []*unstructured.Unstructured
	for name, text := range files {
		if !strings.HasSuffix(name, ".yaml") {
			continue
		}
		objects = append(objects, decode(t, name, text)...)
	}
	slices.SortFunc(objects, func(a, b *unstructured.Unstructured) int {
		return cmp.Or(strings.Compare(a.GetKind(), b.GetKind()), strings.Compare(a.GetName(), b.GetName()))
	})
	return objects
}

// decode reads the objects of a file.
func decode(t *testing.T, name, text string) (objects []*unstructured.Unstructured) {
	t.Helper()
	for dec := yaml.NewYAMLOrJSONDecoder(strings.NewReader(text), 4096); ; {
		o := &unstructured.Unstructured{}
		err := dec.Decode(&o.Object)
		if errors.Is(err, io.EOF) {
			return objects
		}
		if err != nil {
			t.Fatalf("%s: %v\n%s", name, err, text)
		}
		if len(o.Object) > 0 {
			objects = append(objects, o)
		}
	}
}

// named finds an object.
func named(t *testing.T, objects []*unstructured.Unstructured, kind, name string) *unstructured.Unstructured {
	t.Helper()
	for _, o := range objects {
		if o.GetKind() == kind && o.GetName() == name {
			return o
		}
	}
	t.Fatalf("there is no %s %s", kind, name)
	return nil
}

func TestLint(t *testing.T) {
	for name, v := range variants(t) {
		t.Run(name, func(t *testing.T) {
			l := lint.RunAll("kaas", v, namespace)
			for _, m := range l.Messages {
				if m.Severity > support.InfoSev {
					t.Error(m)
				}
			}
		})
	}
}

// What is rendered of the default is what it was: who changes it sees what that does to those
// who upgrade.
func TestDefaultIsAsItWas(t *testing.T) {
	var got bytes.Buffer
	for _, o := range manifests(t, nil) {
		b, err := sigs.Marshal(o.Object)
		if err != nil {
			t.Fatal(err)
		}
		got.WriteString("---\n")
		got.Write(b)
	}
	const golden = "testdata/default.yaml"
	if *update {
		if err := os.WriteFile(golden, got.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got.Bytes(), want) {
		t.Errorf("the default renders otherwise than %s; go test -update writes it, and it is now\n%s", golden, got.String())
	}
}

// Every object is in the release's namespace and says whose it is.
func TestEveryObjectIsTheReleases(t *testing.T) {
	for name, v := range variants(t) {
		for _, o := range manifests(t, v) {
			if o.GetNamespace() != namespace || o.GetLabels()["app.kubernetes.io/instance"] != release {
				t.Errorf("%s: %s %s is in %q with labels %v", name, o.GetKind(), o.GetName(), o.GetNamespace(), o.GetLabels())
			}
		}
	}
}

// What cannot be right is refused before anything is installed, in words that name the value.
func TestWrongValuesAreRefused(t *testing.T) {
	for _, tc := range []struct{ values, want string }{
		{"replicas: -1", "/replicas': minimum: got -1, want 0"},
		{"replicas: three", "/replicas': got string, want integer"},
		{"replica: 4", "additional properties 'replica' not allowed"},
		{"election: raft", "/election': value must be one of 'kubernetes', 'volume'"},
		{"storage: {size: lots}", "/storage/size': 'lots' does not match"},
		{"storage: {accessModes: [ReadOnlyMany]}", "/storage/accessModes/0'"},
		{"storage: {accessModes: [ReadWriteOncePod]}", "storage.accessModes: ReadWriteOncePod is for one pod, and there are to be 3"},
		{"image: {tag: 1.5}", "/image/tag'"},
		{"image: {tag: 0}", "/image/tag'"},
		{"image: {tag: 123456789012345678901}", "/image/tag'"},
		{"podDisruptionBudget: {unhealthyPodEvictionPolicy: Always}", "/podDisruptionBudget/unhealthyPodEvictionPolicy': value must be one of '', 'IfHealthyBudget', 'AlwaysAllow'"},
		{"probes: {readiness: {terminationGracePeriodSeconds: 9}}", "/probes/readiness': additional properties 'terminationGracePeriodSeconds' not allowed"},
		{"probes: {liveness: {terminationGracePeriodSeconds: 0}}", "/probes/liveness/terminationGracePeriodSeconds'"},
		{"external: {host: '[2001:db8::1'}", "/external/host'"},
		{"external: {host: '[kaas]:1'}", "/external/host'"},
		{"storage: {directory: ../x}", "/storage/directory'"},
		{"image: {digest: latest}", "/image/digest'"},
		{"listeners: {clients: {protocol: TLS}}", "/listeners/clients/protocol': value must be one of 'PLAINTEXT', 'SSL', 'SASL_PLAINTEXT', 'SASL_SSL'"},
		{"listeners: {clients: {port: 70000}}", "/listeners/clients/port': maximum: got 70,000, want 65,535"},
		{"listeners: {clients: {port: 9091}}", "listeners: two of them have the same port"},
		{"listeners: {clients: {protocol: SSL}}", "tls.secretName: a listener has the protocol SSL"},
		{"external: {enabled: true, protocol: SASL_SSL}", "tls.secretName: a listener has the protocol SSL"},
		{"external: {type: ClusterIP}", "/external/type': value must be one of 'NodePort', 'LoadBalancer'"},
		{"external: {enabled: true, type: LoadBalancer, host: kaas.example.com}", "external.host: each broker has a load balancer of its own"},
		{"external: {enabled: true, nodePortBase: 65534}", "external.nodePortBase: 3 brokers from 65534 on are more ports than there are"},
		{"settings: {node.id: 4}", "settings: node.id is set by the chart"},
		{"settings: {listeners: 'PLAINTEXT://:9092'}", "settings: listeners is set by the chart"},
		{"settings: {ssl.keystore.password: x}", "settings: ssl.keystore.password would be in a ConfigMap"},
		{"settings: {listener.name.brokers.plain.sasl.jaas.config: x}", "settings: listener.name.brokers.plain.sasl.jaas.config would be"},
		{"settings: {ssl.keystore.key: x}", "settings: ssl.keystore.key would be"},
		{"settings: {num.partitions: [1]}", "/settings/num.partitions': got array"},
		{"settings: {'a b': 1}", "'a b' does not match"},
		{"terminationGracePeriodSeconds: 20", "/terminationGracePeriodSeconds': minimum: got 20, want 28"},
		{"preStopSleepSeconds: 20", "terminationGracePeriodSeconds: a broker needs up to 27 s to hand over and stop, after preStopSleepSeconds: give it 48 or more"},
		{"storage: {existingClaim: My_claim}", "/storage/existingClaim'"},
		{"storage: {volumeName: a/b}", "/storage/volumeName'"},
		{"storage: {storageClassName: --}", "/storage/storageClassName'"},
		{"storage: {size: '0'}", "/storage/size'"},
		{"storage: {size: 0.0Gi}", "/storage/size'"},
		{"tls: {secretName: Kaas}", "/tls/secretName'"},
		{"tls: {certificate: a/b}", "/tls/certificate'"},
		{"tls: {ca: a b}", "/tls/ca'"},
		{"serviceAccount: {name: -x}", "/serviceAccount/name'"},
		{"priorityClassName: High", "/priorityClassName'"},
		{"clusterDomain: a b", "/clusterDomain'"},
		{"podDisruptionBudget: {maxUnavailable: 200%}", "/podDisruptionBudget/maxUnavailable'"},
		{"probes: {liveness: {successThreshold: 2}}", "/probes/liveness/successThreshold'"},
		{"external: {loadBalancerSourceRanges: [all]}", "/external/loadBalancerSourceRanges/0'"},
		{"podLabels: {team: a b}", "/podLabels/team'"},
		{"nodeSelector: {disk: -}", "/nodeSelector/disk'"},
		{"serviceMonitor: {labels: {a: b-}}", "/serviceMonitor/labels/a'"},
		{"probes: {liveness: {path: /readyz}}", "/probes/liveness': additional properties 'path' not allowed"},
	} {
		_, err := render(values(t, tc.values), "")
		if err == nil {
			t.Errorf("%s: is taken", tc.values)
		} else if !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: %q does not say %q", tc.values, err, tc.want)
		}
	}
}

// What is right is taken, in whichever of its forms.
func TestRightValuesAreTaken(t *testing.T) {
	for _, tc := range []struct{ values, file, want string }{
		{"image: {tag: 20241130}", "statefulset", `image: "kaas:20241130"`},
		{"image: {tag: 9007199254740991}", "statefulset", `image: "kaas:9007199254740991"`},
		{"image: {tag: 20241130}", "configmap", `app.kubernetes.io/version: "20241130"`},
		{"probes: {startup: {terminationGracePeriodSeconds: 9}}", "statefulset", "terminationGracePeriodSeconds: 9"},
		{"probes: {liveness: {terminationGracePeriodSeconds: 9}}", "statefulset", "terminationGracePeriodSeconds: 9"},
		{"podDisruptionBudget: {unhealthyPodEvictionPolicy: AlwaysAllow}", "poddisruptionbudget", "unhealthyPodEvictionPolicy: AlwaysAllow"},
		{"{replicas: 1, storage: {accessModes: [ReadWriteOncePod]}}", "claim", "- ReadWriteOncePod"},
		{"{replicas: 0, storage: {accessModes: [ReadWriteOncePod]}}", "claim", "- ReadWriteOncePod"},
		{"storage: {accessModes: [ReadWriteOncePod], existingClaim: mine}", "statefulset", `claimName: "mine"`}, // of which the chart knows nothing
	} {
		files, err := render(values(t, tc.values), "")
		if err != nil {
			t.Errorf("%s: %v", tc.values, err)
		} else if text := files["kaas/templates/"+tc.file+".yaml"]; !strings.Contains(text, tc.want) {
			t.Errorf("%s: there is no %q in\n%s", tc.values, tc.want, text)
		}
	}
}

// The oldest version that the chart names has no sleep before a stop, and the chart leaves it out.
func TestOldestKubernetes(t *testing.T) {
	for version, want := range map[string]bool{"v1.28.0": false, "v1.29.9": false, "v1.30.0": true, "v1.37.2": true} {
		files, err := render(nil, version)
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.Contains(files["kaas/templates/statefulset.yaml"], "preStop"); got != want {
			t.Errorf("%s: a sleep before the stop: %v", version, got)
		}
	}
}
