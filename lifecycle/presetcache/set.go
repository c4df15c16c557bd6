package presetcache

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
	kubevirtv1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/virtwright/virtwright/api/v1alpha1"
	"github.com/virtwright/virtwright/presets"
)

// A Verdict is the result of compiling one generation of a preset or an exception.
type Verdict struct {
	UID        types.UID
	Generation int64
	Problems   field.ErrorList // why the preset is not in use; empty if it is

	compiled  *presets.Compiled
	exception *presets.Exception
	rollout   *v1alpha1.PresetRollout
}

// Hash identifies the content of the preset; empty if it is not in use.
func (v Verdict) Hash() string {
	if v.compiled == nil {
		return ""
	}
	return v.compiled.Hash()
}

// of reports whether the verdict is about this generation of an object, and about the state of a
// rollout.
func (v Verdict) of(object client.Object) bool {
	if r, ok := object.(*v1alpha1.PresetRollout); ok && (v.rollout == nil || !apiequality.Semantic.DeepEqual(stateOf(r), stateOf(v.rollout))) {
		return false
	}
	return v.UID == object.GetUID() && v.Generation == object.GetGeneration()
}

// A set has the verdict of every preset. It is never changed in place.
type set map[Key]Verdict

// with returns the set after changes, nil for deleted objects, and the keys with another verdict.
// It compiles only generations that are new.
func (s set) with(changes map[Key]client.Object) (set, []Key) {
	var changed []Key
	for key, object := range changes {
		v, known := s[key]
		if object == nil && known || object != nil && !(known && v.of(object)) {
			changed = append(changed, key)
		}
	}
	slices.SortFunc(changed, compareKeys)
	verdicts := make([]Verdict, len(changed))
	var workers errgroup.Group
	workers.SetLimit(runtime.GOMAXPROCS(0))
	for i, key := range changed {
		if object := changes[key]; object != nil {
			workers.Go(func() error {
				verdicts[i] = compile(object)
				return nil
			})
		}
	}
	_ = workers.Wait() // no errors
	after := maps.Clone(s)
	if after == nil {
		after = set{}
	}
	for i, key := range changed {
		if changes[key] == nil {
			delete(after, key)
		} else {
			after[key] = verdicts[i]
		}
	}
	return after, changed
}

// hash returns a hash of the generations of all presets, including invalid ones. UIDs distinguish a
// preset from one that was deleted.
func (s set) hash() string {
	sum := sha256.New()
	for _, key := range slices.SortedFunc(maps.Keys(s), compareKeys) {
		fmt.Fprintf(sum, "%s %s %s %d\n", key.Kind, key.NamespacedName, s[key].UID, s[key].Generation)
	}
	return hex.EncodeToString(sum.Sum(nil)[:8])
}

func compareKeys(a, b Key) int {
	return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
}

// compile compiles a preset. It recovers from a panic of the compiler, so that one preset cannot
// stop the others.
func compile(object client.Object) (v Verdict) {
	v = Verdict{UID: object.GetUID(), Generation: object.GetGeneration()}
	defer func() {
		if reason := recover(); reason != nil {
			v.compiled, v.exception = nil, nil
			v.Problems = field.ErrorList{field.InternalError(field.NewPath("spec"), fmt.Errorf("virtwright has a bug: %v", reason))}
		}
	}()
	switch preset := object.(type) {
	case v1alpha1.Preset:
		v.compiled, v.Problems = presets.Compile(preset)
	case *v1alpha1.PresetException:
		v.exception, v.Problems = presets.CompileException(preset)
	case *v1alpha1.PresetRollout:
		v.rollout = preset
	case *kubevirtv1.VirtualMachineInstancePreset:
		v.compiled, v.Problems = presets.CompileLegacy(preset)
	default:
		v.Problems = field.ErrorList{field.InternalError(nil, fmt.Errorf("%T is not a preset", object))}
	}
	return v
}

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
		case isPreset(key.Kind): // VMs cannot name the others
			broken = append(broken, key.Ref())
		}
	}
	return presets.NewSnapshot(compiled, broken).WithExceptions(exceptions, now)
}

// Ref returns the name by which VMs refer to the preset.
func (k Key) Ref() presets.PresetName {
	meta := metav1.ObjectMeta{Namespace: k.Namespace, Name: k.Name}
	return presets.PresetName{Namespace: k.Namespace, Ref: presets.RefOf(&v1alpha1.VirtualMachinePreset{ObjectMeta: meta})}
}

// KeyOf returns the key of the preset that VMs refer to by a name.
func KeyOf(name presets.PresetName) Key {
	bare, cluster := presets.SplitRef(name.Ref)
	key := Key{v1alpha1.KindVirtualMachinePreset, types.NamespacedName{Namespace: name.Namespace, Name: bare}}
	if cluster {
		key.Kind = v1alpha1.KindClusterVirtualMachinePreset
	}
	return key
}
