package node

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
)

// A failure went wrong so often, and is not tried again before its time.
type failure struct {
	count int
	until time.Time
}

// A memory is what an agent remembers while it lives. Losing it does no harm:
// something is read once more, or asked once more.
type memory struct {
	mu sync.Mutex
	// wrote is the version that was written last of an instance.
	wrote map[types.NamespacedName]string
	// told is when a guest was told to shut down.
	told map[types.UID]time.Time
	// failed is how often in a row something went wrong, and until when it is
	// left alone.
	failed map[types.NamespacedName]failure
	// warned is when it was said of a name that others have it.
	warned map[types.NamespacedName]time.Time
	// left are instances of which there are files.
	left map[types.NamespacedName][]types.UID
}

// note remembers what was written.
func (m *memory) note(key types.NamespacedName, version string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	put(&m.wrote, key, version)
}

// stale reports whether a cached version is from before what was written last.
func (m *memory) stale(key types.NamespacedName, cached string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	last, ok := m.wrote[key]
	if !ok {
		return false
	}
	if order, err := resourceversion.CompareResourceVersion(cached, last); err == nil && order < 0 {
		return true
	}
	delete(m.wrote, key)
	return false
}

// ask remembers that a guest was told to shut down.
func (m *memory) ask(uid types.UID, now time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	put(&m.told, uid, now)
}

// asked says whether a guest was told so lately.
func (m *memory) asked(uid types.UID, now time.Time) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	at, ok := m.told[uid]
	return ok && now.Sub(at) < again
}

// warn says whether it is time to say, once more, that others have a name.
func (m *memory) warn(key types.NamespacedName, now time.Time) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if at, ok := m.warned[key]; ok && now.Sub(at) < latest {
		return false
	}
	put(&m.warned, key, now)
	return true
}

// When what went wrong is tried again: each time later.
const (
	soonest = time.Second
	latest  = time.Minute
)

// fail counts what goes wrong, and says how long to wait.
func (m *memory) fail(key types.NamespacedName, now time.Time) time.Duration {
	m.mu.Lock()
	defer m.mu.Unlock()
	count := m.failed[key].count
	wait := min(soonest<<min(count, 10), latest)
	put(&m.failed, key, failure{count + 1, now.Add(wait)})
	return wait
}

// wait is how long what went wrong is still left alone, whatever happens
// meanwhile: a start that fails makes events of its own.
func (m *memory) wait(key types.NamespacedName, now time.Time) time.Duration {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.failed[key].until.Sub(now)
}

// hurry has something tried at once that went wrong: what was the matter may
// have been changed.
func (m *memory) hurry(key types.NamespacedName) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if f, ok := m.failed[key]; ok {
		m.failed[key] = failure{count: f.count}
	}
}

// succeed forgets what went wrong.
func (m *memory) succeed(key types.NamespacedName) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.failed, key)
}

// forget forgets a name of which there is nothing.
func (m *memory) forget(key types.NamespacedName) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.wrote, key)
	delete(m.failed, key)
	delete(m.warned, key)
	delete(m.left, key)
}

// forgetUID forgets an instance that is gone.
func (m *memory) forgetUID(uid types.UID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.told, uid)
}

// found remembers of which instances there are files.
func (m *memory) found(left map[types.NamespacedName][]types.UID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.left = left
}

// leftOf are the instances of a name of which there are files.
func (m *memory) leftOf(key types.NamespacedName) []types.UID {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.left[key]
}

func put[K comparable, V any](into *map[K]V, key K, value V) {
	if *into == nil {
		*into = map[K]V{}
	}
	(*into)[key] = value
}
