package subresources

import (
	"fmt"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// Limits of a replica. No user and no namespace can take all streams, even if no other user has
// one: what a user may open does not depend on what others do.
const (
	// maxStreams is how many connections to guests a replica serves. Each takes one of
	// maxConnections and, while idle, about 130 KiB.
	maxStreams          = 64
	maxUserStreams      = maxStreams / 4
	maxNamespaceStreams = maxStreams / 2
)

// shares count the connections to guests of a replica. Those that wait for their launcher count for
// their user and namespace only, so that launchers without an answer keep no other user out.
type shares struct {
	rejected *prometheus.CounterVec

	mu                sync.Mutex
	open              int
	users, namespaces map[string]int
}

func newShares() *shares {
	return &shares{users: map[string]int{}, namespaces: map[string]int{}, rejected: prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "virtwright_streams_rejected_total",
		Help: "Connections to guests rejected with 429, by the limit that was reached: user, namespace or replica.",
	}, []string{"limit"})}
}

// reserve counts a stream for a user and a namespace until release is called. Its error is for the
// caller.
func (s *shares) reserve(user, namespace string) (release func(), err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.users[user] >= maxUserStreams:
		return nil, s.full("user", fmt.Sprintf("you have %d connections to guests on this replica, the limit for a user", maxUserStreams))
	case s.namespaces[namespace] >= maxNamespaceStreams:
		return nil, s.full("namespace", fmt.Sprintf("namespace %s has %d connections to guests on this replica, the limit for a namespace", namespace, maxNamespaceStreams))
	case s.open >= maxStreams:
		return nil, s.replicaFull()
	}
	s.users[user]++
	s.namespaces[namespace]++
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		uncount(s.users, user)
		uncount(s.namespaces, namespace)
	}, nil
}

// connected counts a stream with a reservation for the replica until release is called. Its error
// is for the caller.
func (s *shares) connected() (release func(), err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.open >= maxStreams {
		return nil, s.replicaFull()
	}
	s.open++
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.open--
	}, nil
}

func uncount(counts map[string]int, key string) {
	if counts[key]--; counts[key] == 0 {
		delete(counts, key)
	}
}

func (s *shares) replicaFull() error {
	return s.full("replica", fmt.Sprintf("%d connections to guests are open on this replica, its limit", maxStreams))
}

func (s *shares) full(limit, message string) error {
	s.rejected.WithLabelValues(limit).Inc()
	return apierrors.NewTooManyRequests(message+"; close one, or try again", 1)
}
