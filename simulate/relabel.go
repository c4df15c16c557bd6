package simulate

import (
	"encoding/json"
	"maps"

	corev1 "k8s.io/api/core/v1"
	kjson "sigs.k8s.io/json"

	"github.com/virtwright/virtwright/simulate/manifest"
)

// IsNamespace reports whether an object is a Namespace.
func IsNamespace(o manifest.Object) bool { return roleOf(o) == namespace }

// Relabelled returns the namespaces that both a cluster and files have: as they are in the cluster,
// and with the labels and annotations that kubectl apply would give them.
func Relabelled(cluster, files []manifest.Object) (was, is []manifest.Object) {
	applied := map[string]entry{}
	for _, o := range files {
		if IsNamespace(o) {
			e := entry{Object: o}
			e.readMeta()
			applied[e.meta.Name] = e
		}
	}
	for _, o := range cluster {
		e := entry{Object: o}
		e.readMeta()
		file, found := applied[e.meta.Name]
		if !found || !IsNamespace(o) {
			continue
		}
		if relabelled, err := e.apply(file); err == nil { // what cannot be read is reported later
			was, is = append(was, o), append(is, relabelled)
		}
	}
	return was, is
}

// apply returns the stored object with the labels and annotations of a file, without those that the
// last kubectl apply set and the file no longer has.
func (e *entry) apply(file entry) (manifest.Object, error) {
	var last struct {
		Metadata struct {
			Labels      map[string]string `json:"labels"`
			Annotations map[string]string `json:"annotations"`
		} `json:"metadata"`
	}
	_ = kjson.UnmarshalCaseSensitivePreserveInts([]byte(e.meta.Annotations[corev1.LastAppliedConfigAnnotation]), &last) // it may be absent
	object, err := e.decode()
	if err != nil {
		return e.Object, err
	}
	out := e.Object
	meta, _ := metadataOf(object)
	meta["labels"] = applyMap(e.meta.Labels, last.Metadata.Labels, file.meta.Labels)
	meta["annotations"] = applyMap(e.meta.Annotations, last.Metadata.Annotations, file.meta.Annotations)
	out.JSON, err = json.Marshal(object)
	return out, err
}

func applyMap(stored, last, file map[string]string) map[string]string {
	out := maps.Clone(stored)
	maps.DeleteFunc(out, func(key, _ string) bool { _, wasApplied := last[key]; return wasApplied })
	if out == nil {
		return file
	}
	maps.Copy(out, file)
	return out
}
