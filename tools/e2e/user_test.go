package e2e

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

// Users made and deleted on the volume of a cluster that runs take the controller's office
// over for a moment each time: no produce fails, no broker ends, every broker has come to know
// the same users, and who asks the cluster for a change meanwhile is answered.
func TestUsersBesideARunningCluster(t *testing.T) {
	need(t)
	needKaas(t)
	bin := filepath.Join(t.TempDir(), "kaas-meta")
	if out, err := exec.Command("go", "build", "-o", bin, "kaas.dev/kaas/tools/kaas-meta").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	c := startCluster(t)
	c.create("t", 6, nil)
	user := func(in string, args ...string) {
		t.Helper()
		cmd := exec.Command(bin, append([]string{"--dir", c.brokers[0].dir, "user"}, args...)...)
		cmd.Stdin = strings.NewReader(in)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("user %v: %v\n%s", args, err, out)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan int)
	go func() { // one record after the other, and each has to be stored
		n := 0
		for ; ctx.Err() == nil; n++ {
			r := &kgo.Record{Topic: "t", Value: fmt.Append(nil, n)}
			if err := c.cl.ProduceSync(context.WithoutCancel(ctx), r).FirstErr(); err != nil {
				t.Errorf("record %d: %v", n, err)
				break
			}
		}
		done <- n
	}()
	adm := kadm.NewClient(c.cl)
	var want []string
	for i := range 2 {
		name := fmt.Sprint("u", i)
		user("a-secret\n", "add", name)
		if i%2 == 1 {
			user("", "delete", fmt.Sprint("u", i-1))
		}
		if i%2 == 1 {
			want = append(want, name)
		}
		// And the cluster itself: a change by whoever is controller by now.
		c.await("a topic is made", func() bool {
			r, err := adm.CreateTopic(t.Context(), 1, -1, nil, name)
			return err == nil || r.Err == kerr.TopicAlreadyExists
		})
	}
	cancel()
	n := <-done
	c.settled()
	for id := range c.brokers {
		c.await("broker "+fmt.Sprint(id+1)+" knows the users", func() bool {
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			defer cancel()
			us, err := kadm.NewClient(c.asked[id]).DescribeUserSCRAMs(ctx)
			names := []string{}
			for name := range us {
				names = append(names, name)
			}
			slices.Sort(names)
			return err == nil && slices.Equal(names, want)
		})
	}
	ends, err := adm.ListEndOffsets(t.Context(), "t")
	if err != nil {
		t.Fatal(err)
	}
	stored := int64(0)
	ends.Each(func(o kadm.ListedOffset) { stored += o.Offset })
	if t.Logf("%d records beside 3 changes of users", n); stored < int64(n) || n == 0 {
		t.Errorf("%d of %d records are stored", stored, n)
	}
}
