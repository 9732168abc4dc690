package helm

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/clientcmd"
)

// startAPI starts an API server, which ends with the test.
func startAPI(t *testing.T) *dynamic.DynamicClient {
	t.Helper()
	bin, dir := filepath.Join(t.TempDir(), "k8snode"), t.TempDir()
	if out, err := exec.Command("go", "build", "-C", "../k8snode", "-o", bin, ".").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	cmd := exec.Command(bin, "api", "--dir", dir)
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	said := &bytes.Buffer{}
	cmd.Stderr = said
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		stdin.Close()
		if err := cmd.Wait(); err != nil {
			t.Logf("the API server ended with %v\n%s", err, said)
		}
	})
	if line, err := bufio.NewReader(stdout).ReadString('\n'); line != "ready\n" {
		t.Fatalf("the API server said %q: %v", line, err)
	}
	kubeconfig, err := os.ReadFile(filepath.Join(dir, "kubeconfig"))
	if err != nil {
		t.Fatal(err)
	}
	config, err := clientcmd.RESTConfigFromKubeConfig(kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return client
}

// besides are the manifests that stand beside the chart, and no part of it.
func besides(t *testing.T) []*unstructured.Unstructured {
	t.Helper()
	var all []*unstructured.Unstructured
	for _, pattern := range []string{"../*.yaml", "../storageclasses/*.yaml"} {
		files, err := filepath.Glob(pattern)
		if err != nil || len(files) == 0 {
			t.Fatalf("%s: %v, %v", pattern, files, err)
		}
		for _, file := range files {
			b, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			for _, o := range decode(t, file, string(b)) {
				all = append(all, listed(t, o)...)
			}
		}
	}
	for _, o := range all {
		if kind := o.GetKind(); kind == "Job" || kind == "Pod" {
			o.SetNamespace(namespace)
		}
	}
	return all
}

// listed are the objects of a list, or the one that is none.
func listed(t *testing.T, o *unstructured.Unstructured) (all []*unstructured.Unstructured) {
	t.Helper()
	if !o.IsList() {
		return append(all, o)
	}
	list, err := o.ToList()
	if err != nil {
		t.Fatal(err)
	}
	for i := range list.Items {
		all = append(all, &list.Items[i])
	}
	return all
}

// podOf is a pod as an object makes them; nil if it makes none, or one of a priority, which an API
// server that has just been started may not know yet.
func podOf(o *unstructured.Unstructured) *unstructured.Unstructured {
	template, ok, _ := unstructured.NestedMap(o.Object, "spec", "template")
	if _, priority, _ := unstructured.NestedString(template, "spec", "priorityClassName"); !ok || priority {
		return nil
	}
	pod := &unstructured.Unstructured{Object: template}
	pod.SetGroupVersionKind(schema.GroupVersionKind{Version: "v1", Kind: "Pod"})
	pod.SetName(o.GetName())
	pod.SetNamespace(o.GetNamespace())
	return pod
}

// at is where objects of a kind are in the API.
func at(client dynamic.Interface, o *unstructured.Unstructured) dynamic.ResourceInterface {
	plural, _ := meta.UnsafeGuessKindToResource(o.GroupVersionKind())
	if o.GetNamespace() == "" {
		return client.Resource(plural)
	}
	return client.Resource(plural).Namespace(o.GetNamespace())
}

// TestTheAPITakesIt has the API server itself judge every manifest, made and applied, with nothing
// in it that it does not know.
func TestTheAPITakesIt(t *testing.T) {
	client := startAPI(t)
	home := &unstructured.Unstructured{}
	home.SetGroupVersionKind(schema.GroupVersionKind{Version: "v1", Kind: "Namespace"})
	home.SetName(namespace)
	// Of objects that make pods it would only warn, so their pods are shown to it too.
	home.SetLabels(map[string]string{"pod-security.kubernetes.io/enforce": "restricted"})
	if _, err := at(client, home).Create(t.Context(), home, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	dry := metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}, FieldValidation: metav1.FieldValidationStrict}
	odd := manifestsAs(t, "9.my.rel", operatorChart, values(t, operatorValues["least"]))
	pods := 0
	for _, o := range slices.Concat(besides(t), operators(t), odd, manifests(t, nil)) {
		if _, err := at(client, o).Create(t.Context(), o, dry); err != nil {
			t.Errorf("%s %s: %v", o.GetKind(), o.GetName(), err)
		}
		pod := podOf(o)
		if pod == nil {
			continue
		}
		pods++
		if _, err := at(client, pod).Create(t.Context(), pod, dry); err != nil {
			t.Errorf("pod of %s %s: %v", o.GetKind(), o.GetName(), err)
		}
		unstructured.RemoveNestedField(pod.Object, "spec", "securityContext", "runAsNonRoot")
		if _, err := at(client, pod).Create(t.Context(), pod, dry); err == nil {
			t.Errorf("pod of %s %s: it may be root's", o.GetKind(), o.GetName())
		}
	}
	if pods < 3 { // brokers, the operator, the Job
		t.Errorf("only %d make pods", pods)
	}
	all := variants(t)
	all["stopped"] = values(t, "{replicas: 0, election: kubernetes, external: {enabled: true, type: LoadBalancer}}")
	for _, tag := range []string{"_x-", strings.Repeat("t", 61) + "._x"} {
		all["tag "+tag] = values(t, fmt.Sprintf("image: {tag: %q}", tag))
	}
	all["called null"] = values(t, strings.NewReplacer("CLAIM", "", "NAME", "null", "FULL", "null").Replace(withNames["kaas"]))
	for name, v := range all {
		objects := manifests(t, v)
		for _, o := range objects {
			if o.GetKind() == "ServiceMonitor" {
				continue // of an operator that is not there
			}
			_, err := at(client, o).Create(t.Context(), o, dry)
			if err == nil { // as Helm does it
				_, err = at(client, o).Apply(t.Context(), o.GetName(), o, metav1.ApplyOptions{DryRun: dry.DryRun, FieldManager: "helm"})
			}
			if err != nil {
				t.Errorf("%s: %s %s: %v", name, o.GetKind(), o.GetName(), err)
			}
		}
		spoilt := named(t, objects, "StatefulSet", fullname(v)).DeepCopy()
		if err := unstructured.SetNestedField(spoilt.Object, "Paralel", "spec", "podManagementPolicy"); err != nil {
			t.Fatal(err)
		}
		if _, err := at(client, spoilt).Create(t.Context(), spoilt, dry); err == nil {
			t.Errorf("%s: the API server takes anything", name)
		}
	}
}

// fullname is what the chart calls its objects.
func fullname(v map[string]any) string {
	if name, ok := v["fullnameOverride"].(string); ok {
		return name
	}
	return release
}
