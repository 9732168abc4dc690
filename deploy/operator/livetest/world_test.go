package livetest

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"kaas.dev/kaas/deploy/operator/api/v1alpha1"
	"kaas.dev/kaas/internal/testcerts"
	"kaas.dev/kaas/internal/testport"
)

const (
	gate      = "KAAS_K8S"
	namespace = "shop"
	home      = "kaas" // the operator's own namespace
)

func TestMain(m *testing.M) {
	ctrl.SetLogger(logr.Discard())
	os.Exit(m.Run())
}

// world is an API server, three brokers, and an operator.
type world struct {
	t         *testing.T // all of it is gone at its end
	dir       string
	api       *process
	apiDir    string
	c         client.WithWatch // may do everything
	scheme    *runtime.Scheme
	brokers   []*broker
	ca        string // of the brokers
	trust     *tls.Config
	admin     *kadm.Client // may do everything
	bin       map[string]string
	operators []*process // the running ones
	said      *logged    // by all operators there were
	secrets   []string   // passwords that nobody may have seen
}

type broker struct {
	addr string
	args []string
	log  logged
	p    *process
}

// start makes the world. It is gone at the test's end.
func start(t *testing.T) *world {
	t.Helper()
	if os.Getenv(gate) == "" {
		t.Skipf("starts an API server and brokers: set %s=1 to run it", gate)
	}
	w := &world{t: t, dir: t.TempDir(), bin: map[string]string{}, said: &logged{}, scheme: scheme(t)}
	program := func(name, module, pkg string) {
		w.bin[name] = filepath.Join(w.dir, name)
		build(t, module, w.bin[name], pkg)
	}
	program("k8snode", "../../k8snode", ".")
	w.launchAPI(t) // which takes its time
	program("kaas", "../../..", "./server/cmd/kaas")
	w.makeBrokers(t, 3)
	for _, b := range w.brokers {
		b.start(w)
	}
	program("operator", "..", ".")
	w.awaitAPI(t)
	w.awaitBrokers(t)
	w.install(t)
	w.grant(t, "operator")
	config := fmt.Sprintf(clientProperties, strings.Join(w.addrs(), ","), w.ca) + "sasl.mechanism=PLAIN\n" +
		`sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required username="operator" password="of-the-operator";` + "\n"
	must(t, os.WriteFile(w.commandConfig(), []byte(config), 0o600))
	return w
}

// clientProperties are those of a client by SASL, with brokers and what to trust.
const clientProperties = "bootstrap.servers=%s\nsecurity.protocol=SASL_SSL\nssl.truststore.type=PEM\nssl.truststore.location=%s\n"

func scheme(t *testing.T) *runtime.Scheme {
	t.Helper()
	s := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, apiextensionsv1.AddToScheme, v1alpha1.AddToScheme} {
		must(t, add(s))
	}
	return s
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func (w *world) launchAPI(t *testing.T) {
	w.apiDir = filepath.Join(w.dir, "api")
	w.api = launch(w.t, &logged{}, w.bin["k8snode"], "api", "--dir", w.apiDir)
}

func (w *world) kubeconfig() string { return filepath.Join(w.apiDir, "kubeconfig") }

func (w *world) awaitAPI(t *testing.T) {
	t.Helper()
	eventually(t, "the API server is ready", func() string {
		if strings.Contains(w.api.log.String(), "ready\n") {
			return ""
		}
		select {
		case <-w.api.ended:
			t.Fatalf("k8snode has ended:\n%s", w.api.log.String())
		default:
		}
		return "not yet"
	})
	w.connect(t)
}

// connect is of whoever may do everything.
func (w *world) connect(t *testing.T) {
	t.Helper()
	conf, err := clientcmd.BuildConfigFromFlags("", w.kubeconfig())
	must(t, err)
	conf.QPS = -1
	w.c, err = client.NewWithWatch(conf, client.Options{Scheme: w.scheme})
	must(t, err)
}

// pidOf is the process of one of k8snode's programs.
func (w *world) pidOf(t *testing.T, program string) int {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(w.apiDir, program+".pid"))
	must(t, err)
	var pid int
	_, err = fmt.Sscan(string(b), &pid)
	must(t, err)
	return pid
}

// killAPI kills the API server, which k8snode starts again.
func (w *world) killAPI(t *testing.T) {
	t.Helper()
	pid := w.pidOf(t, "kube-apiserver")
	must(t, syscall.Kill(pid, syscall.SIGKILL))
	eventually(t, "another API server", func() string {
		b, err := os.ReadFile(filepath.Join(w.apiDir, "kube-apiserver.pid"))
		if err != nil || strings.TrimSpace(string(b)) == fmt.Sprint(pid) {
			return "the old one's pid is there"
		}
		return ""
	})
	eventually(t, "the API answers", func() string {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		return problem(w.c.List(ctx, &v1alpha1.KafkaTopicList{}))
	})
}

func problem(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

const brokerLogin = `org.apache.kafka.common.security.plain.PlainLoginModule required username="broker" password="of-brokers" ` +
	`user_broker="of-brokers" user_admin="of-admin" user_operator="of-the-operator";`

func (w *world) makeBrokers(t *testing.T, n int) {
	ca, key := testcerts.Authority(t, "authority"), filepath.Join(w.dir, "broker.pem")
	w.ca, w.trust = filepath.Join(w.dir, "ca.pem"), &tls.Config{RootCAs: ca.Pool(), MinVersion: tls.VersionTLS12}
	must(t, os.WriteFile(w.ca, ca.CertPEM(), 0o600))
	must(t, os.WriteFile(key, ca.Local(t, "broker").PEM(t, ""), 0o600))
	for i := range n {
		b := &broker{addr: testport.Addr(t)}
		for _, set := range []string{
			fmt.Sprintf("node.id=%d", i+1), "listeners=PLAINTEXT://" + b.addr, "http.listeners=" + testport.Addr(t), "log.dirs=" + filepath.Join(w.dir, "volume"), "log.level=warn",
			"listener.security.protocol.map=PLAINTEXT:SASL_SSL", "ssl.keystore.type=PEM", "ssl.keystore.location=" + key, "ssl.truststore.type=PEM", "ssl.truststore.location=" + w.ca,
			"sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-256,SCRAM-SHA-512", "sasl.mechanism.inter.broker.protocol=PLAIN",
			"listener.name.plaintext.plain.sasl.jaas.config=" + brokerLogin, "connection.failed.authentication.delay.ms=10",
			"authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer", "super.users=User:admin;User:broker",
			"auto.create.topics.enable=false", "num.partitions=2",
		} {
			b.args = append(b.args, "--set", set)
		}
		w.brokers = append(w.brokers, b)
	}
	w.secrets = append(w.secrets, "of-brokers", "of-admin", "of-the-operator")
}

func (b *broker) start(w *world) { b.p = launch(w.t, &b.log, w.bin["kaas"], b.args...) }

func (w *world) addrs() (out []string) {
	for _, b := range w.brokers {
		out = append(out, b.addr)
	}
	return out
}

// client is one of a user of the cluster.
func (w *world) client(t *testing.T, opts ...kgo.Opt) *kgo.Client {
	t.Helper()
	cl, err := kgo.NewClient(append([]kgo.Opt{kgo.SeedBrokers(w.addrs()...), kgo.AlwaysRetryEOF(), kgo.DialTLSConfig(w.trust), kgo.RetryTimeout(10 * time.Second), kgo.MetadataMinAge(50 * time.Millisecond)}, opts...)...)
	must(t, err)
	t.Cleanup(cl.Close)
	return cl
}

func (w *world) awaitBrokers(t *testing.T) {
	t.Helper()
	if w.admin == nil {
		w.admin = kadm.NewClient(w.client(t, kgo.SASL(plain.Auth{User: "admin", Pass: "of-admin"}.AsMechanism())))
	}
	for _, b := range w.brokers { // a client waits long before it tries again
		eventually(t, "broker "+b.addr+" listens", func() string {
			select {
			case <-b.p.ended:
				t.Fatalf("a broker has ended: %s", b.log.String())
			default:
			}
			nc, err := net.Dial("tcp", b.addr)
			if err == nil {
				nc.Close()
			}
			return problem(err)
		})
	}
	eventually(t, "three brokers", func() string {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		bs, err := w.admin.ListBrokers(ctx)
		if err == nil && len(bs) != len(w.brokers) {
			err = fmt.Errorf("%d brokers", len(bs))
		}
		return problem(err)
	})
}

// install puts the definitions and the rules of the chart into the API server.
func (w *world) install(t *testing.T) {
	t.Helper()
	ctx := t.Context()
	files, err := filepath.Glob("../crds/*.yaml")
	if err != nil || len(files) != 2 {
		t.Fatalf("definitions: %v, %v", files, err)
	}
	for _, file := range files {
		crd := &apiextensionsv1.CustomResourceDefinition{}
		read(t, file, crd)
		must(t, w.c.Create(ctx, crd))
		eventually(t, crd.Name+" is served", func() string {
			if err := w.c.Get(ctx, client.ObjectKeyFromObject(crd), crd); err != nil {
				return err.Error()
			}
			if !slices.ContainsFunc(crd.Status.Conditions, func(c apiextensionsv1.CustomResourceDefinitionCondition) bool {
				return c.Type == apiextensionsv1.Established && c.Status == apiextensionsv1.ConditionTrue
			}) {
				return fmt.Sprint(crd.Status.Conditions)
			}
			return ""
		})
	}
	must(t, w.c.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: home}}))
	w.release(t, firstRelease, namespace)
}

// firstRelease is the operator's that all but one test are about.
const firstRelease = "kaas-operator"

// release makes a namespace, and what the chart makes for a release that watches it, the operator
// aside.
func (w *world) release(t *testing.T, release, watched string) {
	t.Helper()
	must(t, w.c.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: watched}}))
	var rules struct{ Resources, Leases []rbacv1.PolicyRule }
	read(t, "../../helm/kaas-operator/files/rules.yaml", &rules)
	for _, rule := range rules.Leases {
		for i, name := range rule.ResourceNames {
			rule.ResourceNames[i] = strings.ReplaceAll(name, "LEASE", release)
		}
	}
	subject := []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: home, Name: release}}
	for ns, rules := range map[string][]rbacv1.PolicyRule{watched: rules.Resources, home: rules.Leases} {
		name := metav1.ObjectMeta{Namespace: ns, Name: release}
		must(t, w.c.Create(t.Context(), &rbacv1.Role{ObjectMeta: name, Rules: rules}))
		must(t, w.c.Create(t.Context(), &rbacv1.RoleBinding{ObjectMeta: name, Subjects: subject, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: name.Name}}))
	}
	w.writeKubeconfig(t, release)
}

// operatorConfig is how a release's operators reach the API: as the chart's service account.
func (w *world) operatorConfig(release string) string {
	return filepath.Join(w.dir, release+".kubeconfig")
}

func (w *world) writeKubeconfig(t *testing.T, release string) {
	t.Helper()
	conf, err := clientcmd.LoadFromFile(w.kubeconfig())
	must(t, err)
	for _, user := range conf.AuthInfos {
		*user = func(a clientcmdapi.AuthInfo) clientcmdapi.AuthInfo {
			a.Impersonate = "system:serviceaccount:" + home + ":" + release
			return a
		}(*user)
	}
	must(t, clientcmd.WriteToFile(*conf, w.operatorConfig(release)))
}

func read(t *testing.T, file string, into any) {
	t.Helper()
	b, err := os.ReadFile(file)
	must(t, err)
	if err := yaml.UnmarshalStrict(b, into); err != nil {
		t.Fatalf("%s: %v", file, err)
	}
}

// grant lets the operator, who logs in as user, do in the cluster what the example says.
func (w *world) grant(t *testing.T, user string) {
	t.Helper()
	cmd := exec.Command("sh", "../examples/granted.sh", "echo")
	cmd.Env = append(os.Environ(), "OPERATOR="+user)
	out, err := cmd.Output()
	must(t, err)
	for line := range strings.Lines(string(out)) {
		b := kadm.NewACLs().AllowHosts("*").ResourcePatternType(kadm.ACLPatternLiteral)
		var ops []kadm.ACLOperation
		args := strings.Fields(line)
		for i, arg := range args {
			switch arg {
			case "--allow-principal":
				b = b.Allow(args[i+1])
			case "--cluster":
				b = b.Clusters()
			case "--topic":
				b = b.Topics(args[i+1])
			case "--operation":
				op, err := kmsg.ParseACLOperation(args[i+1])
				must(t, err)
				ops = append(ops, op)
			}
		}
		rs, err := w.admin.CreateACLs(t.Context(), b.Operations(ops...))
		must(t, err)
		for _, r := range rs {
			must(t, r.Err)
		}
	}
}

func (w *world) commandConfig() string { return filepath.Join(w.dir, "client.properties") }

// operator starts an operator. Flags that are given again count as they stand last.
func (w *world) operator(flags ...string) *process {
	w.t.Helper()
	p := launch(w.t, w.said, w.bin["operator"], w.operatorFlags(flags...)...)
	w.operators = append(w.operators, p)
	return p
}

func (w *world) operatorFlags(more ...string) []string {
	return append([]string{
		"--command-config", w.commandConfig(), "--kubeconfig", w.operatorConfig(firstRelease), "--namespaces", namespace, "--leader-election-namespace", home,
		"--lease", "1m", "--resync", "1s", "--max-retry", "1s", "--metrics", "127.0.0.1:0", "--probes", "127.0.0.1:0", "--log-level", "DEBUG", "--reserved-users", "kept; admin",
	}, more...)
}

// get asks an HTTP server for a page.
func get(addr, path string) (string, error) {
	nc, err := net.DialTimeout("tcp", addr, time.Second)
	if err != nil {
		return "", err
	}
	defer nc.Close()
	_ = nc.SetDeadline(time.Now().Add(5 * time.Second))
	fmt.Fprintf(nc, "GET %s HTTP/1.0\r\n\r\n", path)
	b, err := io.ReadAll(nc)
	return string(b), err
}
