package virtualmachine

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
)

// A freshness knows what was written last, so that nobody decides by what a
// cache has not learnt yet. It forgets what caches have seen; the rest costs
// few bytes a machine.
type freshness struct {
	mu      sync.Mutex
	wrote   map[types.NamespacedName]written
	deleted map[types.NamespacedName]types.UID
}

// A written version was written at a time.
type written struct {
	version string
	at      time.Time
}

// forgets is when what was written is forgotten: caches that are so far behind
// follow another history, as after a restore of the cluster.
const forgets = time.Minute

// note remembers the version of an object that was written.
func (f *freshness) note(key types.NamespacedName, version string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.wrote == nil {
		f.wrote = map[types.NamespacedName]written{}
	}
	f.wrote[key] = written{version, time.Now()}
}

// stale reports whether a cached version, empty for none, is from before what
// was written last.
func (f *freshness) stale(key types.NamespacedName, cached string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	last, ok := f.wrote[key]
	switch {
	case !ok:
		return false
	case time.Since(last.at) > forgets:
	case cached == "":
		return true
	default:
		if order, err := resourceversion.CompareResourceVersion(cached, last.version); err == nil && order < 0 {
			return true
		}
	}
	delete(f.wrote, key)
	return false
}

// noteDeletion remembers that an object was told to go.
func (f *freshness) noteDeletion(key types.NamespacedName, uid types.UID) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.deleted == nil {
		f.deleted = map[types.NamespacedName]types.UID{}
	}
	f.deleted[key] = uid
}

// told reports whether a cached object that seems to stay was told to go.
func (f *freshness) told(key types.NamespacedName, uid types.UID) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.deleted[key] == uid
}

// forget is for what is gone.
func (f *freshness) forget(key types.NamespacedName) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.wrote, key)
	delete(f.deleted, key)
}
