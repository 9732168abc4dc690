package traffic

import "testing"

func TestUneven(t *testing.T) {
	brokers := []int32{0, 1, 2}
	for _, tc := range []struct {
		name  string
		nodes []int32 // of the partitions
		even  bool
	}{
		{"as many each", []int32{0, 1, 2, 0, 1, 2}, true},
		{"one more", []int32{0, 1, 2, 0}, true},
		{"two more", []int32{0, 1, 2, 0, 0}, false},
		{"one leads nothing", []int32{0, 0, 1}, false},
		{"nobody leads one", []int32{0, 1, 2, -1}, false},
		{"one more than there are partitions", []int32{0, 1}, true},
	} {
		all := map[place]leader{}
		for i, n := range tc.nodes {
			all[place{topic: "a", index: int32(i)}] = leader{n, 1}
		}
		if err := uneven(all, brokers); (err == nil) != tc.even {
			t.Errorf("%s: %v", tc.name, err)
		}
	}
}
