package projections

import "testing"

func TestShardNames(t *testing.T) {
	for n, want := range map[int32]string{0: "00", 7: "07", 42: "42", 123: "123"} {
		if got, err := ParseShardName(ShardName(n)); ShardName(n) != want || err != nil || got != n {
			t.Errorf("shard %d is %s and comes back as %d, %v", n, ShardName(n), got, err)
		}
	}
	for _, bad := range []string{"", "7", "007", "-1", "+7", "x", "~new~s~01", "99999999999"} {
		if _, err := ParseShardName(bad); err == nil {
			t.Errorf("%q is taken for a shard", bad)
		}
	}
}
