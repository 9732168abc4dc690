package projections

import "fmt"

// Flags of a flattened partition.
const flagHandover int32 = 1

// flatten makes leader, epoch, flags, leader, epoch, flags, … of partitions, for
// far fewer bytes than a map each.
func flatten(ps []Partition) []int32 {
	out := make([]int32, 0, 3*len(ps))
	for _, p := range ps {
		flags := int32(0)
		if p.Handover {
			flags = flagHandover
		}
		out = append(out, p.Leader, p.Epoch, flags)
	}
	return out
}

// unflatten is the inverse of flatten, for at most that many.
func unflatten(nums []int32, most int) ([]Partition, error) {
	if len(nums)%3 != 0 || len(nums) > 3*most {
		return nil, fmt.Errorf("%d numbers are not 3 for each of at most %d partitions", len(nums), most)
	}
	out := make([]Partition, 0, len(nums)/3)
	for i := 0; i < len(nums); i += 3 {
		flags := nums[i+2]
		if flags&^flagHandover != 0 {
			return nil, fmt.Errorf("partition %d has flags %#x, which this build does not know", i/3, flags)
		}
		out = append(out, Partition{nums[i], nums[i+1], flags&flagHandover != 0})
	}
	return out, nil
}
