package limits

import (
	"context"
	"math"
	"slices"
	"sync"
	"time"
)

// maxIdleFlows bounds the flows that are remembered while they use nothing.
const maxIdleFlows = 1000

// A resource is divided among flows, which are namespaces. A flow may take more of it only as long
// as it has no more than what remains free, so one flow gets at most half, and a new flow finds
// some while few flows are busy. If requests wait, the flow that has used the least is next: fair
// queuing by virtual time, as in API Priority and Fairness of API servers. There is no shuffle
// sharding, because flows are few, and no queue limit, because requests wait for seconds at most.
type resource struct {
	size int64

	mu    sync.Mutex
	used  int64
	flows map[string]*flow
	// arrived counts requests.
	arrived uint64
	// now is the virtual time: what the flow that was served last had used before.
	now float64
}

// A flow is the use of a resource by one namespace.
type flow struct {
	held int64
	// used is the virtual time of its next request: amount times seconds.
	used    float64
	waiting []*share
}

// A share is a part of a resource that a request has, or waits for.
type share struct {
	from    *resource
	name    string // of the flow
	flow    *flow
	amount  int64
	arrival uint64        // its place among all requests
	granted chan struct{} // closed once it has the share
	since   time.Time     // when it got the share
}

func newResource(size int64) *resource { return &resource{size: size, flows: map[string]*flow{}} }

// acquire waits until a flow gets an amount, of at most the size of the resource, or the context
// ends.
func (r *resource) acquire(ctx context.Context, name string, amount int64) (*share, error) {
	s := &share{from: r, name: name, amount: min(amount, r.size)}
	return s, s.wait(ctx)
}

// try returns a share that a flow gets without waiting, or nil.
func (r *resource) try(name string, amount int64) *share {
	r.mu.Lock()
	defer r.mu.Unlock()
	f := r.flow(name)
	if len(f.waiting) > 0 || !r.allows(f, amount) || r.used+amount > r.size {
		return nil
	}
	s := &share{from: r, name: name, flow: f, amount: amount, granted: make(chan struct{})}
	r.grant(s)
	return s
}

// flow returns the flow of a name.
func (r *resource) flow(name string) *flow {
	f := r.flows[name]
	if f == nil {
		r.forget()
		f = &flow{}
		r.flows[name] = f
	}
	return f
}

// forget removes flows that use nothing and owe nothing; too many of them even if they owe.
func (r *resource) forget() {
	for name, f := range r.flows {
		if f.held == 0 && len(f.waiting) == 0 && (f.used <= r.now || len(r.flows) > maxIdleFlows) {
			delete(r.flows, name)
		}
	}
}

// wait waits for the share.
func (s *share) wait(ctx context.Context) error {
	r := s.from
	r.mu.Lock()
	s.flow, s.granted = r.flow(s.name), make(chan struct{})
	if len(s.flow.waiting) == 0 && s.flow.held == 0 {
		s.flow.used = max(s.flow.used, r.now) // a flow saves nothing up while it is idle
	}
	r.arrived++
	s.arrival = r.arrived
	s.flow.waiting = append(s.flow.waiting, s)
	r.dispatch()
	r.mu.Unlock()
	select {
	case <-s.granted:
		return nil
	default:
	}
	select {
	case <-s.granted:
		return nil
	case <-ctx.Done():
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if at := slices.Index(s.flow.waiting, s); at >= 0 {
		s.flow.waiting = slices.Delete(s.flow.waiting, at, at+1)
		r.dispatch() // others may have waited for its turn
		return ctx.Err()
	}
	return nil // it was granted in the same moment
}

// release returns the share, and charges its flow for the time that it had it.
func (s *share) release() {
	r := s.from
	r.mu.Lock()
	defer r.mu.Unlock()
	r.used -= s.amount
	s.flow.held -= s.amount
	s.flow.used += float64(s.amount) * time.Since(s.since).Seconds()
	r.dispatch()
}

// dispatch grants shares. A request that is next but finds too little waits, and keeps others from
// overtaking it.
func (r *resource) dispatch() {
	for {
		next := r.next()
		if next == nil || r.used+next.waiting[0].amount > r.size {
			return
		}
		s := next.waiting[0]
		next.waiting = next.waiting[1:]
		r.now = max(r.now, next.used)
		r.grant(s)
	}
}

func (r *resource) grant(s *share) {
	r.used += s.amount
	s.flow.held += s.amount
	s.since = time.Now()
	close(s.granted)
}

// allows reports whether a flow may have more: a flow that has nothing may have all.
func (r *resource) allows(f *flow, amount int64) bool {
	return f.held == 0 || f.held+amount <= r.size-r.used
}

// next returns the waiting flow that has used the least and may take more.
func (r *resource) next() *flow {
	var out *flow
	least := math.Inf(1)
	for _, f := range r.flows {
		if len(f.waiting) == 0 || !r.allows(f, f.waiting[0].amount) {
			continue
		}
		// What a flow holds counts as if for a second, so that its requests do not all go first.
		// Of equal flows, such as new ones, the one that waits longest is next.
		used := f.used + float64(f.held)
		if used < least || used == least && f.waiting[0].arrival < out.waiting[0].arrival {
			out, least = f, used
		}
	}
	return out
}
