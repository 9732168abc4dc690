package server

// feature is what a cluster of Kafka raises step by step as its brokers are renewed. Here
// each stands at the highest level of this build, and stays there.
type feature struct {
	name      string
	low, high int16 // what Kafka 4.4 supports
	level     int16
}

// features are those that the cluster has: the next-generation group protocol, the
// metadata of Kafka 4.4, and transactions that producers join by producing. When one
// changes, featuresEpoch rises.
var features = []feature{
	{"group.version", 0, 1, 1},
	{"metadata.version", 7, 33, 33},
	{"transaction.version", 0, 2, 2},
}

const featuresEpoch = 3

func featureNamed(name string) *feature {
	for i := range features {
		if features[i].name == name {
			return &features[i]
		}
	}
	return nil
}
