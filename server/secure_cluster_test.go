package server

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/sasl/plain"
)

// secureBroker is a broker that authenticates to others as kaas, with an authorizer.
func secureBroker(t *testing.T, dir string, id int, supers string) *Config {
	t.Helper()
	const jaas = `org.apache.kafka.common.security.plain.PlainLoginModule required username="kaas" password="kaas-secret" ` +
		`user_kaas="kaas-secret" user_admin="admin-secret" user_alice="alice-secret" user_bob="bob-secret";`
	return testConfig(t, dir, saslSets("listener.name.sasl_plaintext.plain.sasl.jaas.config="+jaas, "authorizer.class.name="+standardAuthorizer,
		"super.users="+supers, "broker.heartbeat.interval.ms=200", fmt.Sprint("node.id=", id))...)
}

func saslClient(t *testing.T, n *Node, user string) *kgo.Client {
	t.Helper()
	return kgoClient(t, n.Addr(), kgo.SASL(plain.Auth{User: user, Pass: user + "-secret"}.AsMechanism()))
}

// Whichever broker a client asks, it is the client that the controller decides for, and not
// the broker that has passed its request on.
func TestClientsOfAuthenticatedBrokers(t *testing.T) {
	dir := t.TempDir()
	var nodes []*Node
	for id := 1; id <= 3; id++ {
		nodes = append(nodes, startConfig(t, secureBroker(t, dir, id, "User:admin;User:kaas")))
	}
	for _, n := range nodes {
		awaitCluster(t, n, "three brokers serve", func() bool { return alive(n) == 3 && n.broker.Ready() })
	}
	ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
	defer cancel()
	admin := kadm.NewClient(saslClient(t, nodes[0], "admin"))
	grant := kadm.NewACLs().Topics("alices-").ResourcePatternType(kadm.ACLPatternPrefixed).Allow("User:alice").Operations(kadm.OpCreate, kadm.OpRead, kadm.OpWrite)
	if r, err := admin.CreateACLs(ctx, grant); err != nil || r[0].Err != nil {
		t.Fatal(err, r)
	}
	granted := nodes[0].broker.Shown()
	for _, n := range nodes { // any may lead, and decides by what it knows
		if err := n.broker.AwaitShown(ctx, granted); err != nil {
			t.Fatal(err)
		}
	}
	for i, n := range nodes {
		topic := fmt.Sprint("alices-", i)
		alice, bob := saslClient(t, n, "alice"), saslClient(t, n, "bob")
		for user, cl := range map[string]*kgo.Client{"alice": alice, "bob": bob} {
			// The request is for this broker alone: a client would look for the controller.
			for _, name := range []string{topic, "others-" + topic} {
				code := createAt(ctx, t, cl, int32(i+1), name)
				if want := user == "alice" && name == topic; (code == 0) != want || !want && code != kerr.TopicAuthorizationFailed.Code {
					t.Errorf("broker %d, %s makes %s: error %d", i+1, user, name, code)
				}
			}
		}
		if err := alice.ProduceSync(ctx, &kgo.Record{Topic: topic, Value: []byte("v")}).FirstErr(); err != nil {
			t.Errorf("broker %d: %v", i+1, err)
		}
	}
}

// createAt has a broker make a topic.
func createAt(ctx context.Context, t *testing.T, cl *kgo.Client, id int32, name string) int16 {
	t.Helper()
	req := kmsg.NewPtrCreateTopicsRequest()
	req.TimeoutMillis = 20_000
	req.Topics = []kmsg.CreateTopicsRequestTopic{{Topic: name, NumPartitions: 3, ReplicationFactor: 1}}
	if err := cl.Ping(ctx); err != nil { // so that it knows the brokers
		t.Fatal(err)
	}
	resp, err := cl.Broker(int(id)).Request(ctx, req)
	if err != nil {
		t.Fatal(err)
	}
	return resp.(*kmsg.CreateTopicsResponse).Topics[0].ErrorCode
}

// A broker that authenticates as somebody without ClusterAction does not come into the
// cluster, and does with it.
func TestBrokersNeedClusterAction(t *testing.T) {
	dir, log := t.TempDir(), &lockedBuffer{}
	first := served(t, startLogged(t, secureBroker(t, dir, 1, "User:admin"), log))
	cfg := secureBroker(t, dir, 2, "User:admin")
	opened, n, err := make(chan struct{}), (*Node)(nil), error(nil)
	go func() {
		defer close(opened)
		n, err = Open(t.Context(), cfg, testLog(t))
	}()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if <-opened; err == nil {
			err = n.Stop(ctx)
		}
		if err != nil {
			t.Error(err)
		}
	})
	logged(t, log, "denied logger=kafka.authorizer.logger principal=User:kaas operation=CLUSTER_ACTION")
	select {
	case <-opened:
		t.Errorf("without ClusterAction: %v, %v", n, err)
	default:
	}
	if got := len(first.broker.View().Brokers()); got != 1 {
		t.Errorf("%d brokers without ClusterAction", got)
	}
	grant := kadm.NewACLs().Clusters().Allow("User:kaas").Operations(kadm.OpClusterAction)
	if r, err := kadm.NewClient(saslClient(t, first, "admin")).CreateACLs(t.Context(), grant); err != nil || r[0].Err != nil {
		t.Fatal(err, r)
	}
	if <-opened; err == nil {
		awaitCluster(t, n, "two brokers serve", func() bool { return alive(n) == 2 && n.broker.Ready() })
	}
}
