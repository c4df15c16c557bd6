package leadership

import (
	"context"
	"encoding/json"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/klog/v2"
)

// server is an API server with one Lease, that may hang and go on.
type server struct {
	mu      sync.Mutex
	there   bool
	version int
	record  resourcelock.LeaderElectionRecord
	hung    chan struct{} // closed when it goes on; nil while it answers
	only    string        // who it does not answer; empty for all
}

func (s *server) hang(d time.Duration) {
	s.mu.Lock()
	s.hung = make(chan struct{})
	s.mu.Unlock()
	time.Sleep(d)
	s.mu.Lock()
	close(s.hung)
	s.hung = nil
	s.mu.Unlock()
}

// candidate is a client of it, with client-go's timeout.
type candidate struct {
	resourcelock.Interface
	*server
	id    string
	knows int
	r     *rand.Rand
}

var leases = schema.GroupResource{Resource: "leases"}

func (c *candidate) Identity() string   { return c.id }
func (c *candidate) Describe() string   { return "ns/lease" }
func (c *candidate) RecordEvent(string) {}

func (c *candidate) call(ctx context.Context, do func() error) error {
	ctx, cancel := context.WithTimeout(ctx, renewDeadline/2)
	defer cancel()
	time.Sleep(time.Duration(1+c.r.IntN(30)) * time.Millisecond)
	c.mu.Lock()
	hung := c.hung
	if c.only != "" && c.only != c.id {
		hung = nil
	}
	c.mu.Unlock()
	if hung != nil {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-hung:
			time.Sleep(time.Duration(1+c.r.IntN(30)) * time.Millisecond)
		}
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	c.mu.Lock()
	err := do()
	c.mu.Unlock()
	time.Sleep(time.Duration(1+c.r.IntN(10)) * time.Millisecond)
	return err
}

func (c *candidate) Get(ctx context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	var out resourcelock.LeaderElectionRecord
	err := c.call(ctx, func() error {
		if !c.there {
			return apierrors.NewNotFound(leases, "lease")
		}
		out, c.knows = c.record, c.version
		return nil
	})
	if err != nil {
		return nil, nil, err
	}
	raw, _ := json.Marshal(out)
	return &out, raw, nil
}

func (c *candidate) Create(ctx context.Context, r resourcelock.LeaderElectionRecord) error {
	return c.call(ctx, func() error {
		if c.there {
			return apierrors.NewAlreadyExists(leases, "lease")
		}
		c.there = true
		c.version++
		c.record, c.knows = r, c.version
		return nil
	})
}

func (c *candidate) Update(ctx context.Context, r resourcelock.LeaderElectionRecord) error {
	return c.call(ctx, func() error {
		if !c.there {
			return apierrors.NewNotFound(leases, "lease")
		}
		if c.knows != c.version {
			return apierrors.NewConflict(leases, "lease", nil)
		}
		c.version++
		c.record, c.knows = r, c.version
		return nil
	})
}

// both is for how long both may write, in a run during which something happens.
func both(t *testing.T, seed uint64, happens func(r *rand.Rand, s *server)) (overlap time.Duration) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		klog.SetLogger(logr.Discard())
		s := &server{}
		r := rand.New(rand.NewPCG(seed, 1))
		var locks []*Lock
		for i, id := range []string{"a", "b"} {
			l := &Lock{Interface: &candidate{server: s, id: id, r: rand.New(rand.NewPCG(seed, uint64(i+2)))}}
			campaign, err := l.Campaign(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			defer campaign.End()
			locks = append(locks, l)
			time.Sleep(time.Second)
		}
		go happens(r, s)
		for range 45 * 100 {
			time.Sleep(10 * time.Millisecond)
			_, a := locks[0].held()
			_, b := locks[1].held()
			if a && b {
				overlap += 10 * time.Millisecond
			}
		}
	})
	return overlap
}

// Two replicas never write at the same time, even if the API server or the connection to it fails.
// A lease that is deleted or loses its holder is noticed at the next renewal.
func TestNeverTwo(t *testing.T) {
	soon := func(r *rand.Rand) { time.Sleep(time.Duration(5000+r.IntN(4000)) * time.Millisecond) }
	cases := map[string]struct {
		happens func(r *rand.Rand, s *server)
		most    time.Duration
	}{
		"the API server hangs": {func(r *rand.Rand, s *server) {
			soon(r)
			s.hang(time.Duration(14000+r.IntN(3500)) * time.Millisecond)
		}, 0},
		"the leader is cut off": {func(r *rand.Rand, s *server) {
			soon(r)
			s.only = "a"
			s.hang(time.Duration(13000+r.IntN(5000)) * time.Millisecond)
		}, 0},
		"the lease is deleted": {func(r *rand.Rand, s *server) {
			soon(r)
			s.mu.Lock()
			s.there = false
			s.mu.Unlock()
		}, retryPeriod + 100*time.Millisecond},
		"the holder of the lease is removed": {func(r *rand.Rand, s *server) {
			soon(r)
			s.mu.Lock()
			s.record.HolderIdentity = ""
			s.version++
			s.mu.Unlock()
		}, retryPeriod + 100*time.Millisecond},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			worst := time.Duration(0)
			for seed := range uint64(300) {
				worst = max(worst, both(t, seed, tc.happens))
			}
			if worst > tc.most {
				t.Errorf("both replicas may write at the same time, for %s at worst, which may be %s", worst, tc.most)
			}
		})
	}
}
