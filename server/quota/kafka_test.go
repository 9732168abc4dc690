package quota

import (
	"math"
	"testing"
)

// What Apache Kafka 4.4's own Rate and TokenBucket say of the same use, with eleven samples
// of a second and, of the bucket, a quota of 2.5: after which step, and what. A rate also has
// the time that it is over.
var (
	kafkaRate = [][3]float64{
		{9, 1415.314731, 10787},
		{19, 709.026919, 10513},
		{29, 809.375572, 10922},
		{39, 2380.930189, 10729},
		{49, 4247.073263, 10592},
		{59, 4981.018695, 10484},
		{69, 3440.971009, 11452},
		{79, 4792.614978, 10589},
		{89, 4958.978691, 10653},
		{99, 4687.099208, 10604},
		{109, 3529.106479, 11561},
		{119, 1008.826535, 10763},
		{129, 4009.534001, 10279},
		{139, 1668.026565, 10540},
		{149, 3098.744084, 10988},
		{159, 4344.239883, 10972},
		{169, 3129.448936, 10761},
		{179, 1332.662765, 10936},
		{189, 2067.273741, 10762},
		{199, 3817.384953, 10952},
		{209, 4948.544223, 10922},
		{219, 7180.380990, 10184},
		{229, 1806.888295, 10859},
		{239, 2832.376471, 10625},
		{249, 4479.049189, 11527},
		{259, 3123.541211, 10968},
		{269, 2966.134124, 10453},
		{279, 4824.703134, 10274},
		{289, 1875.057545, 10861},
		{299, 2231.204380, 10960},
		{309, 4353.978085, 10495},
		{319, 6764.221694, 10934},
		{329, 1122.154999, 10413},
		{339, 3499.228544, 10370},
		{349, 6100.492801, 10349},
		{359, 5999.813746, 10738},
		{369, 2232.035638, 10326},
		{379, 4072.174649, 10627},
		{389, 1798.361863, 10866},
		{399, 4164.655508, 10276},
	}
	kafkaTokens = [][2]float64{
		{3, 25.235000},
		{7, 4.770000},
		{11, -24.360000},
		{15, -32.430000},
		{19, -42.755000},
		{23, -52.540000},
		{27, -51.715000},
		{31, -61.587500},
		{35, -66.600000},
		{39, -81.257500},
	}
)

// use gives numbers without a pattern.
type use uint64

func (u *use) next() int64 {
	*u = *u*6364136223846793005 + 1442695040888963407
	return int64(*u >> 33)
}

func TestMeasuresAsKafka(t *testing.T) {
	seed, w, now := use(42), window{11, 1000}, int64(1_000_000)
	var r rate
	for i := range 400 {
		x := seed.next()
		switch {
		case x%100 < 60:
			now += x % 300
		case x%100 < 95:
			now += x % 2500
		default:
			now += x % 15000
		}
		r.record(w, float64((x>>7)%5000), now)
		got, over := r.measure(w, now)
		if i%10 != 9 {
			continue
		}
		if want := kafkaRate[i/10]; math.Abs(got-want[1]) > 1e-5 || over != want[2] {
			t.Fatalf("step %d: %.6f over %v ms, want %.6f over %v", i, got, over, want[1], want[2])
		}
	}
	var b bucket
	now = 1_000_000
	for i := range 40 {
		x := seed.next()
		now += x % 3000
		b.fill(2.5, w.worth(2.5), now)
		b.tokens -= float64((x >> 7) % 12)
		if want := kafkaTokens[i/4]; i%4 == 3 && math.Abs(b.tokens-want[1]) > 1e-5 {
			t.Fatalf("step %d: %.6f tokens, want %.6f", i, b.tokens, want[1])
		}
	}
}
