package runstate

import (
	"hash/fnv"
	"strconv"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// How long to wait between starts that fail: the square of their number times
// the interval, and up to half of that more, but no more than the longest.
const (
	interval = 10 * time.Second
	longest  = 300 * time.Second
)

// failed counts one more instance that ended before it ran.
func failed(before *Failure, uid types.UID, now time.Time) *Failure {
	out := &Failure{ConsecutiveFailCount: 1, LastFailedVMIUID: uid}
	if before != nil {
		out.ConsecutiveFailCount = before.ConsecutiveFailCount + 1
	}
	after := metav1.NewTime(now.Add(delay(out.ConsecutiveFailCount, uid)).Truncate(time.Second))
	out.RetryAfterTimestamp = &after
	return out
}

// delay before the next start. What is added to spread starts follows from the
// UID, so that who asks twice gets the same answer.
func delay(count int, uid types.UID) time.Duration {
	if count >= 6 {
		return longest
	}
	square := interval * time.Duration(max(count, 1)*max(count, 1))
	spread := fnv.New32a()
	_, _ = spread.Write([]byte(string(uid) + strconv.Itoa(count))) // never fails
	return min(square+square/2*time.Duration(spread.Sum32()%1000)/1000, longest)
}

// backOff is how long no start may be tried. A time that is further away than
// any that is written here comes from a clock that was wrong.
func (s *Situation) backOff() time.Duration {
	if s.Failure == nil || s.Failure.RetryAfterTimestamp == nil {
		return 0
	}
	left := s.Failure.RetryAfterTimestamp.Sub(s.Now)
	if left > 2*longest {
		return 0
	}
	return max(left, 0)
}
