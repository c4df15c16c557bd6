package presetstatus

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/virtwright/virtwright/api/v1alpha1"
	"github.com/virtwright/virtwright/lifecycle/machine"
	"github.com/virtwright/virtwright/lifecycle/presetcache"
)

// eventPause is the least time between two events that say the same of a preset.
const eventPause = time.Hour

// tell writes an event for each condition that began to hold, or holds for another reason, once
// status says so.
func (c *Controller) tell(key presetcache.Key, before, after v1alpha1.Preset) {
	for _, b := range besideOthers {
		was := meta.FindStatusCondition(before.GetStatus().Conditions, b.kind)
		is := meta.FindStatusCondition(after.GetStatus().Conditions, b.kind)
		if is == nil || was != nil && was.Message == is.Message || !c.mayTell(key, b.kind+" "+is.Message) {
			continue
		}
		c.Events.Eventf(after, nil, corev1.EventTypeWarning, b.kind, "Analyze", "%s", machine.Note(is.Message))
	}
}

// mayTell reports whether an event about a preset was written long enough ago, and counts it as
// written now.
func (c *Controller) mayTell(key presetcache.Key, text string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.now()
	if last, ok := c.told[key][text]; ok && now.Sub(last) < eventPause {
		return false
	}
	recent := map[string]time.Time{text: now}
	for t, at := range c.told[key] {
		if now.Sub(at) < eventPause && t != text {
			recent[t] = at
		}
	}
	if c.told == nil {
		c.told = map[presetcache.Key]map[string]time.Time{}
	}
	c.told[key] = recent
	return true
}
