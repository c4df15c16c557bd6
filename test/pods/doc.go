// Package pods asks a real API server whether it admits the pods of VMIs that the rules admit.
package pods
