package offline

import (
	"context"
	"iter"
	"runtime"
	"sync"

	"github.com/virtwright/virtwright/validation/names"
)

// A turn keeps the order of machines that are judged at the same time: what one machine has in common
// with those before it is looked up when all of them are known.
type turn struct {
	// name of the machine that messages show.
	name string
	// before is closed when all machines before this one are known; nil for none.
	before <-chan struct{}
	done   chan struct{}
	once   sync.Once
	// stored is the machine as a cluster has it, and judged as it is to be; nil for one that is new.
	stored, judged *names.Machine
}

func (t *turn) wait() {
	if t.before != nil {
		<-t.before
	}
}

// end lets the next machine look, after all machines before this one.
func (t *turn) end() {
	t.wait()
	t.once.Do(func() { close(t.done) })
}

type turnKey struct{}

// turnOf is the turn of the machine that a request is about; nil for none.
func turnOf(ctx context.Context) *turn {
	t, _ := ctx.Value(turnKey{}).(*turn)
	return t
}

// inTurn gives the request about a machine its turn, which is now if there is none.
func inTurn(ctx context.Context, m Machine) (context.Context, *turn) {
	t := turnOf(ctx)
	if t == nil {
		t = &turn{done: make(chan struct{})}
		ctx = context.WithValue(ctx, turnKey{}, t)
	}
	t.name = m.Name
	return ctx, t
}

// InOrder calls do for inputs on all cores, and yields what it returns in the order of inputs. Requests
// with the context that do is given see the machines of the inputs before.
func InOrder[I, O any](ctx context.Context, inputs iter.Seq[I], do func(context.Context, I) O) iter.Seq[O] {
	return func(yield func(O) bool) {
		stop := make(chan struct{})
		pending := make(chan chan O, 4*runtime.GOMAXPROCS(0)) // so that no core waits for a slow input
		var workers sync.WaitGroup
		defer workers.Wait()
		defer close(stop)
		workers.Go(func() {
			defer close(pending)
			slots := make(chan struct{}, runtime.GOMAXPROCS(0))
			var before <-chan struct{}
			for input := range inputs {
				result, t := make(chan O, 1), &turn{before: before, done: make(chan struct{})}
				before = t.done
				select {
				case pending <- result:
				case <-stop:
					return
				}
				slots <- struct{}{}
				workers.Go(func() {
					defer func() { <-slots }()
					result <- do(context.WithValue(ctx, turnKey{}, t), input)
					t.end()
				})
			}
		})
		for result := range pending {
			if !yield(<-result) {
				return
			}
		}
	}
}
