package learn

import "cmp"

// A star is what a choice would gain: values with the number of fields that VMs need not have.
type star struct {
	at     int // the selector
	values map[int]int
	rank   int
	// cost is that of the values, and of the choice if it is new.
	cost, gain int
}

func (s star) isWorse(o star) bool {
	return cmp.Or(
		cmp.Compare(s.cost*o.gain, o.cost*s.gain), // the price of a field
		cmp.Compare(o.gain, s.gain),
		cmp.Compare(s.at, o.at),
	) > 0
}

type stars []star

func (s stars) Len() int           { return len(s) }
func (s stars) Less(i, j int) bool { return s[j].isWorse(s[i]) }
func (s stars) Swap(i, j int)      { s[i], s[j] = s[j], s[i] }
func (s *stars) Push(x any)        { *s = append(*s, x.(star)) }
func (s *stars) Pop() any {
	last := (*s)[len(*s)-1]
	*s = (*s)[:len(*s)-1]
	return last
}
