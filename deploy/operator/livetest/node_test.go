package livetest

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509/pkix"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl/scram"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"kaas.dev/kaas/deploy/operator/api/v1alpha1"
	"kaas.dev/kaas/internal/testcerts"
)

const (
	nodeGate = "KAAS_K8SNODE"
	nodePort = 31090 // of the first broker, as the chart has it
)

// node is a whole Kubernetes of deploy/k8snode, with the images of brokers and of the operator,
// and with what works on it.
type node struct {
	*world
	up string // its directory
}

// startNode needs root. The node is gone at the test's end.
func startNode(t *testing.T) *node {
	t.Helper()
	if os.Getenv(nodeGate) == "" {
		t.Skipf("starts a whole Kubernetes, as root: set %s=1 to run it", nodeGate)
	}
	n := &node{world: &world{t: t, dir: t.TempDir(), bin: map[string]string{}, said: &logged{}, scheme: scheme(t)}}
	n.up = filepath.Join(n.dir, "node")
	n.apiDir = n.up // where its kubeconfig is
	for name, from := range map[string][2]string{
		"k8snode": {"../../k8snode", "."}, "helm": {"../../helm", "helm.sh/helm/v4/cmd/helm"},
		"kaas": {"../../..", "./server/cmd/kaas"}, "kaas-meta": {"../../..", "./tools/kaas-meta"}, "operator": {"..", "."},
	} {
		n.bin[name] = filepath.Join(n.dir, name)
		build(t, from[0], n.bin[name], from[1])
	}
	t.Cleanup(func() {
		if t.Failed() {
			n.show(t)
		}
		n.run(t, "k8snode", "down", "--dir", n.up)
	})
	n.run(t, "k8snode", "up", "--dir", n.up)
	n.bin["kubectl"] = strings.TrimSpace(n.run(t, "k8snode", "build", "kubectl"))
	n.run(t, "k8snode", "image", "--dir", n.up, "docker.io/library/kaas:0.1.0", n.bin["kaas"], n.bin["kaas-meta"])
	n.run(t, "k8snode", "image", "--dir", n.up, strings.Fields(begins(t)[0])[2], n.bin["operator"])
	n.connect(t)
	return n
}

// root is the repository.
const root = "../../.."

// begins are the commands that docs/operator.md begins with: of who makes the image, and pushes it,
// and then the first ones of who installs it.
func begins(t *testing.T) (commands []string) {
	t.Helper()
	page, err := os.ReadFile(filepath.Join(root, "docs/operator.md"))
	must(t, err)
	for line := range strings.Lines(string(page)) {
		command, is := strings.CutPrefix(line, "    ")
		if is {
			commands = append(commands, strings.TrimSpace(command))
		} else if len(commands) > 0 {
			break
		}
	}
	for i, want := range []string{"deploy/image operator ", "docker push ", "helm install kaas-operator ", "kubectl apply ", "kubectl get "} {
		if len(commands) != 5 || !strings.HasPrefix(commands[i], want) {
			t.Fatalf("the page begins with %q", commands)
		}
	}
	return commands
}

// run runs one of the programs, and returns what it says.
func (n *node) run(t *testing.T, program string, args ...string) string {
	t.Helper()
	return n.runIn(t, "", program, args...)
}

func (n *node) runIn(t *testing.T, dir, program string, args ...string) string {
	t.Helper()
	cmd := exec.Command(n.bin[program], args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "KUBECONFIG="+n.kubeconfig(), "HELM_CACHE_HOME="+n.dir, "HELM_CONFIG_HOME="+n.dir, "HELM_DATA_HOME="+n.dir)
	said := &bytes.Buffer{}
	cmd.Stderr = said
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s%s", program, strings.Join(args, " "), err, out, said)
	}
	return string(out)
}

// show has what there is be part of a failed test's log.
func (n *node) show(t *testing.T) {
	for _, what := range []string{"get all,pvc,kafkatopics,kafkausers -A -o wide", "get events -A", "describe pods -n " + namespace,
		"logs -n " + namespace + " -l app.kubernetes.io/component=operator --tail=60", "logs -n " + namespace + " -l app.kubernetes.io/name=kaas --tail=20"} {
		cmd := exec.Command(n.bin["kubectl"], append([]string{"--kubeconfig", n.kubeconfig()}, strings.Fields(what)...)...)
		out, err := cmd.CombinedOutput()
		t.Logf("%s (%v)\n%s", what, err, out)
	}
}

// restricted makes a namespace where no pod may be that is not confined.
func (n *node) restricted(t *testing.T, name string) {
	t.Helper()
	must(t, n.c.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
		Name: name, Labels: map[string]string{"pod-security.kubernetes.io/enforce": "restricted"},
	}}))
}

// helm installs a chart of deploy/helm, whose pods are ready at the end.
func (n *node) helm(t *testing.T, ns, chart string, more ...string) {
	t.Helper()
	n.run(t, "helm", append([]string{"install", chart, "../../helm/" + chart, "--namespace", ns, "--wait", "--timeout", patience.String()}, more...)...)
}

// address is the node's.
func (n *node) address(t *testing.T) string {
	t.Helper()
	var nodes corev1.NodeList
	must(t, n.c.List(t.Context(), &nodes))
	for _, a := range nodes.Items[0].Status.Addresses {
		if a.Type == corev1.NodeInternalIP {
			return a.Address
		}
	}
	t.Fatal("the node has no address")
	return ""
}

// What docs/operator.md begins with, read there, but for who makes the image and pushes it; brokers and
// operator have their charts' default values, and may be no more than confined pods.
func TestOperatorInAPod(t *testing.T) {
	n := startNode(t)
	for _, part := range []struct {
		name string
		test func(*testing.T, *node)
	}{
		{"default values", testPodDefaults},
		{"with TLS and SASL", testPodSecure},
		{"examples", func(t *testing.T, n *node) { testExamples(t, n.world) }},
		{"pods of the operator go", testPodsGo},
		{"API server killed", testPodAPIKilled},
		{"deleted", testPodDeleted},
	} {
		if !t.Run(part.name, func(t *testing.T) { part.test(t, n) }) {
			break
		}
	}
}

func testPodDefaults(t *testing.T, n *node) {
	const ns = "plain"
	n.restricted(t, ns)
	n.helm(t, ns, "kaas")
	for _, command := range begins(t)[2:4] {
		args := append(strings.Fields(command), "--namespace", ns)
		if args[0] == "helm" {
			args = append(args, "--wait", "--timeout", patience.String())
		}
		n.runIn(t, root, args[0], args[1:]...)
	}
	n.run(t, "kubectl", "wait", "-n", ns, "--for=condition=Ready", "kafkatopics", "--all", "--timeout="+patience.String())
	if got := n.run(t, "kubectl", "get", "-n", ns, "kafkatopics", "orders", "-o", "jsonpath={.status.partitions}"); got != "12" {
		t.Errorf("orders has %s partitions", got)
	}
	n.run(t, "kubectl", "delete", "-n", ns, "-f", "../examples/topics.yaml", "--timeout="+patience.String())
	n.run(t, "helm", "uninstall", "-n", ns, "kaas-operator", "--wait")
	n.run(t, "helm", "uninstall", "-n", ns, "kaas", "--wait")
}

const secureValues = `
listeners:
  clients: {port: 9092, protocol: SASL_SSL}
  brokers: {port: 9091, protocol: SASL_SSL}
external: {enabled: true}
tls: {secretName: kaas-tls, brokersClientAuth: none}
settings:
  sasl.enabled.mechanisms: SCRAM-SHA-512
  sasl.mechanism.inter.broker.protocol: SCRAM-SHA-512
  authorizer.class.name: org.apache.kafka.metadata.authorizer.StandardAuthorizer
  super.users: User:admin;User:broker
  num.partitions: 2
extraEnv:
  - name: KAAS_LISTENER_NAME_BROKERS_SCRAM_SHA_512_SASL_JAAS_CONFIG
    valueFrom: {secretKeyRef: {name: kaas-login, key: jaas}}
`

func jaas(user string) string {
	return `org.apache.kafka.common.security.scram.ScramLoginModule required username="` + user + `" password="of-` + user + `";`
}

// The values of docs/kubernetes.md, and the first users as they are made there. The operator
// logs in as a user of its own.
func testPodSecure(t *testing.T, n *node) {
	n.restricted(t, namespace)
	ip := n.address(t)
	ca := testcerts.Authority(t, "authority")
	n.trust = &tls.Config{RootCAs: ca.Pool(), MinVersion: tls.VersionTLS12}
	cert := ca.Issue(t, testcerts.Spec{Subject: pkix.Name{CommonName: "kaas"}, Hosts: []string{
		"*.kaas-brokers." + namespace + ".svc.cluster.local", "kaas." + namespace + ".svc.cluster.local", "kaas." + namespace + ".svc", "kaas", ip,
	}})
	for name, data := range map[string]map[string][]byte{
		"kaas-tls":         {"tls.crt": cert.CertPEM(), "tls.key": cert.KeyPEM(t, ""), "ca.crt": ca.CertPEM()},
		"kaas-login":       {"jaas": []byte(jaas("broker"))},
		"kaas-first-users": {"admin": []byte("of-admin"), "broker": []byte("of-broker")},
		"kaas-operator-login": {"ca.crt": ca.CertPEM(), "client.properties": fmt.Appendf(nil, clientProperties+"sasl.mechanism=SCRAM-SHA-512\nsasl.jaas.config=%s\n",
			"kaas:9092", "/etc/kaas/client/ca.crt", jaas("kaas-operator"))},
	} {
		must(t, n.c.Create(t.Context(), &corev1.Secret{ObjectMeta: named(name), Data: data}))
	}
	values := filepath.Join(n.dir, "values.yaml")
	must(t, os.WriteFile(values, []byte(secureValues), 0o600))
	n.run(t, "helm", "install", "kaas", "../../helm/kaas", "--namespace", namespace, "-f", values)
	n.run(t, "kubectl", "apply", "-n", namespace, "-f", "../../first-administrator.yaml")
	n.run(t, "kubectl", "rollout", "status", "-n", namespace, "statefulset/kaas", "--timeout="+patience.String())

	for i := range 3 {
		n.brokers = append(n.brokers, &broker{addr: fmt.Sprintf("%s:%d", ip, nodePort+i)})
	}
	n.admin = kadm.NewClient(n.client(n.t, kgo.SASL(scram.Auth{User: "admin", Pass: "of-admin"}.AsSha512Mechanism())))
	_, err := n.admin.AlterUserSCRAMs(t.Context(), nil, []kadm.UpsertSCRAM{{User: "kaas-operator", Mechanism: kadm.ScramSha512, Iterations: 4096, Password: "of-kaas-operator"}})
	must(t, err)
	n.grant(t, "kaas-operator")
	repository, _, _ := strings.Cut(strings.Fields(begins(t)[0])[2], ":")
	n.helm(t, namespace, "kaas-operator", "--set", "image.repository="+repository, "--set", "commandConfig.secretName=kaas-operator-login,namespaces={"+namespace+"},resync=1s,maxRetry=1s")
}

// operators are the operator's pods.
func (n *node) operatorPods(t *testing.T) []corev1.Pod {
	t.Helper()
	var pods corev1.PodList
	must(t, n.c.List(t.Context(), &pods, client.InNamespace(namespace), client.MatchingLabels{"app.kubernetes.io/component": "operator"}))
	return pods.Items
}

// While resources come, change and go the operator's pod is deleted again and again, in order
// and at once. What is left to do the next one does.
func testPodsGo(t *testing.T, n *node) {
	const lives = 4
	r := newTopic("moves", v1alpha1.KafkaTopicSpec{Partitions: new(int32(1))})
	must(t, n.c.Create(t.Context(), r))
	for i := range lives {
		before := n.operatorPods(t)
		change(t, n.world, r, func(r *v1alpha1.KafkaTopic) { r.Spec.Partitions = new(int32(2 + i)) })
		must(t, n.c.Create(t.Context(), newUser(fmt.Sprintf("comes-%d", i), v1alpha1.KafkaUserSpec{Authentication: v1alpha1.Authentication{Type: v1alpha1.ScramSHA512}})))
		var how []client.DeleteOption
		if i%2 == 1 {
			how = append(how, client.GracePeriodSeconds(0))
		}
		for _, p := range before {
			must(t, client.IgnoreNotFound(n.c.Delete(t.Context(), &p, how...)))
		}
		if i > 0 {
			n.remove(t, newUser(fmt.Sprintf("comes-%d", i-1), v1alpha1.KafkaUserSpec{}))
		}
		n.awaitTopic(t, "moves", "moves", wanted{partitions: 2 + i, reason: "InSync"})
		for _, was := range before {
			for _, is := range n.operatorPods(t) {
				if is.UID == was.UID && is.DeletionTimestamp == nil {
					t.Errorf("pod %s is still there", is.Name)
				}
			}
		}
	}
	for i := range lives - 1 {
		n.awaitUser(t, fmt.Sprintf("comes-%d", i), fmt.Sprintf("comes-%d", i), has{})
	}
	last := fmt.Sprintf("comes-%d", lives-1)
	n.awaitUser(t, last, last, has{iterations: 4096, secret: last, reason: "InSync"})
	n.awaitIn(t, last, string(n.secret(t, last)["password"]))
}

// The API server is killed. Brokers are those that were there before, and changes that come then
// are made.
func testPodAPIKilled(t *testing.T, n *node) {
	before := n.restarts(t)
	n.run(t, "k8snode", "signal", "--dir", n.up, "kube-apiserver", "KILL")
	eventually(t, "the API answers", func() string {
		ctx, cancel := context.WithTimeout(t.Context(), patience/10)
		defer cancel()
		return problem(client.IgnoreAlreadyExists(n.c.Create(ctx, newTopic("added", v1alpha1.KafkaTopicSpec{}))))
	})
	n.awaitTopic(t, "added", "added", wanted{partitions: 2, reason: "InSync"})
	n.remove(t, newTopic("added", v1alpha1.KafkaTopicSpec{}))
	n.awaitTopic(t, "added", "added", wanted{gone: true})
	if after := n.restarts(t); after != before {
		t.Errorf("pods were %s, and are %s", before, after)
	}
}

// restarts are the brokers' pods, and how often their containers were started again.
func (n *node) restarts(t *testing.T) string {
	t.Helper()
	return n.run(t, "kubectl", "get", "pods", "-n", namespace, "-l", "app.kubernetes.io/name=kaas", "-o", `jsonpath={range .items[*]}{.metadata.name} {.status.containerStatuses[*].restartCount},{end}`)
}

// Resources go, and then the operator: nothing of it is left but the definitions.
func testPodDeleted(t *testing.T, n *node) {
	n.run(t, "kubectl", "delete", "-n", namespace, "kafkatopics,kafkausers", "--all", "--timeout="+patience.String())
	n.awaitTopic(t, "moves", "moves", wanted{gone: true})
	n.awaitUser(t, "comes-3", "comes-3", has{})
	eventually(t, "the generated Secret is gone", func() string {
		if n.secret(t, "comes-3") != nil {
			return "it is there"
		}
		return ""
	})
	n.run(t, "helm", "uninstall", "-n", namespace, "kaas-operator", "--wait")
	if got := n.run(t, "kubectl", "get", "-n", namespace, "deployments,roles,rolebindings,serviceaccounts", "-l", "app.kubernetes.io/instance=kaas-operator", "-o", "name"); got != "" {
		t.Errorf("there is left: %s", got)
	}
}
