package scenario

import (
	"fmt"
	"slices"
	"strings"
)

// sharedName is that of a topic with a partition for each codec, which holds a sample of each client.
const sharedName = "shared"

func (r *run) write() {
	_, err := r.create(sharedName, len(Codecs))
	if err != nil && r.Code(err) != 36 {
		r.together(chain{{"create the shared topic", func() error { return err }}})
		return
	}
	var c chain
	for i, codec := range Codecs {
		if r.Skip["produce "+codec] != "" {
			continue
		}
		c.add("write "+codec, func() error {
			return r.Produce(r.ctx, Target{Topic: r.topic(sharedName), Partition: int32(i), Codec: codec}, Sample(r.Name, codec))
		})
	}
	r.together(c)
}

// read expects a sample of each of the clients in each partition. CLIENT may be followed by
// codecs, as in kcat:none,gzip, where a client does not have all.
func (r *run) read(clients []string) {
	wrote := map[string][]string{} // codecs by client
	for i, c := range clients {
		name, some, found := strings.Cut(c, ":")
		wrote[name] = Codecs
		if found {
			wrote[name] = strings.Split(some, ",")
		}
		clients[i] = name
	}
	have := make([]map[string][]Record, len(Codecs)) // samples by client
	var fetches []chain
	for i, codec := range Codecs {
		want := 0
		for _, c := range clients {
			if slices.Contains(wrote[c], codec) {
				want += SampleSize
			}
		}
		fetches = append(fetches, chain{{"read " + codec, func() (err error) {
			have[i], err = r.samples(int32(i), want)
			return err
		}}})
	}
	r.together(fetches...)
	var compare chain
	for _, c := range clients {
		compare.add("read what "+c+" wrote", func() error {
			for i, codec := range Codecs {
				if !slices.Contains(wrote[c], codec) || r.Skip["read "+codec] != "" {
					continue
				}
				if err := r.same(have[i][c], Sample(c, codec)); err != nil {
					return fmt.Errorf("%s: %w", codec, err)
				}
			}
			return nil
		})
	}
	r.together(compare)
}

// samples reads a partition of the shared topic. The first key of a sample tells whose it is.
func (r *run) samples(partition int32, want int) (map[string][]Record, error) {
	got, err := r.Fetch(r.ctx, r.topic(sharedName), partition, want, false)
	out := map[string][]Record{}
	for sample := range slices.Chunk(got, SampleSize) {
		client, _, _ := strings.Cut(string(sample[0].Key), "/")
		out[client] = sample
	}
	return out, err
}
