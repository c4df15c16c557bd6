package presetcache

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
	kubevirtv1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/virtwright/virtwright/api/v1alpha1"
	"github.com/virtwright/virtwright/presets"
)

// A Verdict is what compiling one generation of a preset or an exception came to.
type Verdict struct {
	UID        types.UID
	Generation int64
	// Problems say why the preset is not in use; none when it is.
	Problems field.ErrorList

	compiled  *presets.Compiled
	exception *presets.Exception
}

// Hash stands for what the preset gives; empty for one that is not in use.
func (v Verdict) Hash() string {
	if v.compiled == nil {
		return ""
	}
	return v.compiled.Hash()
}

// of reports whether the verdict is about an object as it is now.
func (v Verdict) of(object client.Object) bool {
	return v.UID == object.GetUID() && v.Generation == object.GetGeneration()
}

// A set has every preset with its verdict. It is never changed in place.
type set map[Key]Verdict

// with returns the set after changes, nil meaning deleted, and the keys whose
// verdict is another one then. Generations that s has seen are not compiled again.
func (s set) with(changes map[Key]client.Object) (set, []Key) {
	var news []Key
	for key, object := range changes {
		v, known := s[key]
		if object == nil && known || object != nil && !(known && v.of(object)) {
			news = append(news, key)
		}
	}
	slices.SortFunc(news, compareKeys)
	verdicts := make([]Verdict, len(news))
	inParallel(len(news), func(i int) {
		if object := changes[news[i]]; object != nil {
			verdicts[i] = judge(object)
		}
	})
	after := maps.Clone(s)
	if after == nil {
		after = set{}
	}
	for i, key := range news {
		if changes[key] == nil {
			delete(after, key)
		} else {
			after[key] = verdicts[i]
		}
	}
	return after, news
}

// digest identifies the generations of all presets, also of those that are not in
// use: a set in which one is there again as it once was is another one.
func (s set) digest() string {
	sum := sha256.New()
	for _, key := range slices.SortedFunc(maps.Keys(s), compareKeys) {
		fmt.Fprintf(sum, "%s %s %s %d\n", key.Kind, key.NamespacedName, s[key].UID, s[key].Generation)
	}
	return hex.EncodeToString(sum.Sum(nil)[:8])
}

func compareKeys(a, b Key) int {
	return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
}

// inParallel calls f for 0 to n-1, on every processor.
func inParallel(n int, f func(int)) {
	var next atomic.Int64
	var wg sync.WaitGroup
	for range min(n, runtime.GOMAXPROCS(0)) {
		wg.Go(func() {
			for i := next.Add(1) - 1; i < int64(n); i = next.Add(1) - 1 {
				f(int(i))
			}
		})
	}
	wg.Wait()
}

// judge compiles a preset. A defect of the compiler is that preset's problem alone.
func judge(object client.Object) (v Verdict) {
	v = Verdict{UID: object.GetUID(), Generation: object.GetGeneration()}
	defer func() {
		if reason := recover(); reason != nil {
			v.compiled, v.exception = nil, nil
			v.Problems = field.ErrorList{field.InternalError(field.NewPath("spec"), fmt.Errorf("virtwright has a defect: %v", reason))}
		}
	}()
	switch preset := object.(type) {
	case v1alpha1.Preset:
		v.compiled, v.Problems = presets.Compile(preset)
	case *v1alpha1.PresetException:
		v.exception, v.Problems = presets.CompileException(preset)
	case *kubevirtv1.VirtualMachineInstancePreset:
		v.compiled, v.Problems = presets.CompileLegacy(preset)
	default:
		v.Problems = field.ErrorList{field.InternalError(nil, fmt.Errorf("%T is no preset", object))}
	}
	return v
}

// snapshot makes the set ready for requests.
func (s set) snapshot(now func() time.Time) *presets.Snapshot {
	compiled := make([]*presets.Compiled, 0, len(s))
	var exceptions []*presets.Exception
	var broken []presets.PresetName
	for key, v := range s {
		switch {
		case v.exception != nil:
			exceptions = append(exceptions, v.exception)
		case v.compiled != nil:
			compiled = append(compiled, v.compiled)
		case key.Kind != KindLegacy && key.Kind != v1alpha1.KindPresetException: // no VM can ask for one of those by name
			broken = append(broken, key.Ref())
		}
	}
	return presets.NewSnapshot(compiled, broken).WithExceptions(exceptions, now)
}

// Ref is how a VM asks for the preset.
func (k Key) Ref() presets.PresetName {
	meta := metav1.ObjectMeta{Namespace: k.Namespace, Name: k.Name}
	return presets.PresetName{Namespace: k.Namespace, Ref: presets.RefOf(&v1alpha1.VirtualMachinePreset{ObjectMeta: meta})}
}

// KeyOf names the preset, one of virtwright's, that VMs ask for by a name.
func KeyOf(name presets.PresetName) Key {
	bare, cluster := presets.Bare(name.Ref)
	key := Key{v1alpha1.KindVirtualMachinePreset, types.NamespacedName{Namespace: name.Namespace, Name: bare}}
	if cluster {
		key.Kind = v1alpha1.KindClusterVirtualMachinePreset
	}
	return key
}
