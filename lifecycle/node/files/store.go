// Package files makes on a host what the volumes of an instance need: images of
// cloud-init data, configMaps and secrets, empty disks, overlays of images that
// must not change. It finds what is there already by rules about folders, and
// says of each volume what stage 3 of the pipeline wants to know.
//
// Everything that is made for an instance is below one folder, named by its
// UID, or noted there. What is made is made beside its place and moved there
// when it is whole, so that nothing half-made is ever found. All may be done
// twice: what a guest may have written to is kept.
package files

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
	kubevirtv1 "kubevirt.io/api/core/v1"

	"github.com/virtwright/virtwright/domain"
)

// Reasons why something could not be made, as the condition Synchronized has
// them. KubeVirt's printable status reads the first two.
const (
	// ReasonNoClaim is an image of a claim that is not there.
	ReasonNoClaim = "FailedPvcNotFound"
	// ReasonNoImage is an image of a container disk that is not there.
	ReasonNoImage = "ErrImagePull"
	// ReasonRefused is a volume that this agent cannot have, or may not.
	ReasonRefused = "VolumeRefused"
	// ReasonNotMade is a file that could not be made.
	ReasonNotMade = "FilesNotMade"
	// ReasonNotRead is something that the instance names and that could not be
	// read from API servers.
	ReasonNotRead = "ContentNotRead"
)

// A Trouble is why the files of an instance cannot be made now.
type Trouble struct {
	// Reason is one of the reasons above.
	Reason string
	Err    error
}

// Error is what is wrong.
func (t *Trouble) Error() string { return t.Err.Error() }

// Unwrap is what is wrong.
func (t *Trouble) Unwrap() error { return t.Err }

// A Content reads what a volume is made of: the files of a "configMap",
// "secret" or "serviceAccount" of a name.
type Content func(ctx context.Context, kind, namespace, name string) (map[string][]byte, error)

// A Store is where on a host things are.
type Store struct {
	// State is the agent's own folder. Below it each instance has one.
	State string
	// Volumes has NAMESPACE/CLAIM/disk.img of each claim.
	Volumes string
	// Images has IMAGE/disk.qcow2 or disk.img of each container disk, with %2F for
	// the slashes of its name: see domain.FileName.
	Images string
	// HostDisks are the folders below which hostDisks may be; none where empty.
	HostDisks []string
	// Content reads what volumes are made of.
	Content Content
}

// folderMode lets QEMU, which may run as another user, pass and not look around.
const folderMode = 0o711

// Dir is the folder of an instance.
func (s *Store) Dir(uid types.UID) string { return filepath.Join(s.State, filepath.Base(string(uid))) }

// Prepare makes what the volumes of an instance need before it can be taken
// through stage 3, and says what that must know of them.
func (s *Store) Prepare(ctx context.Context, vmi *kubevirtv1.VirtualMachineInstance) (map[string]domain.VolumeFacts, error) {
	if err := os.MkdirAll(s.Dir(vmi.UID), folderMode); err != nil {
		return nil, &Trouble{ReasonNotMade, fmt.Errorf("cannot make the folder of the instance: %w", err)}
	}
	if err := replace(s.name(vmi.UID), func(unfinished string) error {
		return os.WriteFile(unfinished, []byte(vmi.Namespace+"/"+vmi.Name), 0o600)
	}); err != nil {
		return nil, &Trouble{ReasonNotMade, fmt.Errorf("cannot name the folder of the instance: %w", err)}
	}
	facts := map[string]domain.VolumeFacts{}
	var problems []error
	reason := ""
	for i := range vmi.Spec.Volumes {
		v := &volume{Volume: &vmi.Spec.Volumes[i], store: s, vmi: vmi, at: field.NewPath("spec", "volumes").Index(i)}
		found, err := v.prepare(ctx)
		var trouble *Trouble
		if errors.As(err, &trouble) && reason == "" {
			reason = trouble.Reason
		}
		if err != nil {
			problems = append(problems, err)
			continue
		}
		facts[v.Name] = *found
	}
	if len(problems) > 0 {
		return nil, &Trouble{reason, errors.Join(problems...)}
	}
	return facts, nil
}

// outside is where it is noted what was made elsewhere for an instance.
func (s *Store) outside(uid types.UID) string { return filepath.Join(s.Dir(uid), "outside.json") }

// note remembers, before it is made, something that is not in the instance's
// folder.
func (s *Store) note(uid types.UID, path string) error {
	if rel, err := filepath.Rel(s.Dir(uid), path); err == nil && filepath.IsLocal(rel) {
		return nil
	}
	made, err := s.noted(uid)
	if err != nil || slices.Contains(made, path) {
		return err
	}
	text, err := json.Marshal(append(made, path))
	if err != nil {
		return fmt.Errorf("cannot note what is made: %w", err)
	}
	return replace(s.outside(uid), func(unfinished string) error { return os.WriteFile(unfinished, text, 0o600) })
}

func (s *Store) noted(uid types.UID) ([]string, error) {
	text, err := os.ReadFile(s.outside(uid))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	var made []string
	if err == nil {
		err = json.Unmarshal(text, &made)
	}
	if err != nil {
		return nil, fmt.Errorf("cannot read what was made: %w", err)
	}
	return made, nil
}

// Remove removes everything that was made for an instance, but what another
// has made its own since, and no folders but the agent's.
func (s *Store) Remove(uid types.UID) error {
	if uid == "" {
		return nil
	}
	made, err := s.noted(uid)
	if err != nil {
		made = nil // a note that cannot be read must not hold up the rest
	}
	theirs, known := s.theirs(uid)
	for _, path := range made {
		if !known || slices.Contains(theirs, path) {
			continue
		}
		if !slices.Contains(theirs, path+oldLog) {
			_ = os.Remove(path + oldLog) // where it was a log that grew
		}
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("cannot remove what was made: %w", err)
		}
		if s.emptied(filepath.Dir(path), theirs) {
			_ = os.Remove(filepath.Dir(path)) // if that was all there was in it
		}
	}
	if err := os.RemoveAll(s.Dir(uid)); err != nil {
		return fmt.Errorf("cannot remove the folder of the instance: %w", err)
	}
	return nil
}

// theirs are the files elsewhere that all other instances have, by their notes:
// by rules that go by names, an instance has the files of an older one of its
// name. Where one cannot be read nothing is known, and everything is kept.
func (s *Store) theirs(uid types.UID) (paths []string, known bool) {
	uids, err := s.All()
	if err != nil {
		return nil, false
	}
	for _, other := range uids {
		if s.Dir(other) == s.Dir(uid) {
			continue
		}
		noted, err := s.noted(other)
		if err != nil {
			return nil, false
		}
		paths = append(paths, noted...)
	}
	return paths, true
}

// emptied says whether a folder may go once nothing is in it: it is below the
// agent's, no instance's own, and nobody else is about to write there.
func (s *Store) emptied(folder string, theirs []string) bool {
	rel, err := filepath.Rel(s.State, folder)
	if err != nil || rel == "." || !filepath.IsLocal(rel) || isUID(rel) {
		return false
	}
	return !slices.ContainsFunc(theirs, func(path string) bool { return filepath.Dir(path) == folder })
}

// name is where it is written whose the folder of a UID is.
func (s *Store) name(uid types.UID) string { return filepath.Join(s.Dir(uid), "instance") }

// Owner is the instance whose the folder of a UID is; empty where nobody knows:
// it was just being made.
func (s *Store) Owner(uid types.UID) types.NamespacedName {
	text, err := os.ReadFile(s.name(uid))
	namespace, name, whole := strings.Cut(string(text), "/")
	if err != nil || !whole {
		return types.NamespacedName{}
	}
	return types.NamespacedName{Namespace: namespace, Name: name}
}

// nameless is how long a folder may have no name before somebody must have been
// interrupted.
const nameless = time.Minute

// RemoveNameless removes a folder that has had no name for long.
func (s *Store) RemoveNameless(uid types.UID) error {
	info, err := os.Stat(s.Dir(uid))
	if err != nil || time.Since(info.ModTime()) < nameless {
		return nil //nolint:nilerr // it is gone, or as good as named
	}
	return s.Remove(uid)
}

// Made says whether there is something of an instance.
func (s *Store) Made(uid types.UID) bool {
	_, err := os.Lstat(s.Dir(uid))
	return err == nil
}

// All are the instances of which there is something.
func (s *Store) All() ([]types.UID, error) {
	entries, err := os.ReadDir(s.State)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("cannot look through the agent's folder: %w", err)
	}
	var out []types.UID
	for _, e := range entries {
		if e.IsDir() && isUID(e.Name()) {
			out = append(out, types.UID(e.Name()))
		}
	}
	return out, nil
}

// isUID says whether a name is that of an instance's folder.
func isUID(name string) bool {
	if len(name) != 36 {
		return false
	}
	for i, r := range name {
		dash := i == 8 || i == 13 || i == 18 || i == 23
		if dash != (r == '-') || !dash && (r < '0' || r > '9') && (r < 'a' || r > 'f') {
			return false
		}
	}
	return true
}

// replace has a file made under another name, and moves it to its place when
// it is whole. It is there before it is written, and nobody else may read it.
func replace(path string, create func(unfinished string) error) error {
	unfinished := path + ".unfinished"
	_ = os.Remove(unfinished) // of who was interrupted
	empty, err := os.OpenFile(unfinished, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("cannot make %s: %w", filepath.Base(path), err)
	}
	empty.Close()
	if err := create(unfinished); err != nil {
		_ = os.Remove(unfinished)
		return err
	}
	if err := os.Rename(unfinished, path); err != nil {
		_ = os.Remove(unfinished)
		return fmt.Errorf("cannot put %s in its place: %w", filepath.Base(path), err)
	}
	return nil
}
