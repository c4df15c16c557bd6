package main

import (
	"context"
	"time"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

const (
	// awaitPeriod is between two attempts to reach an API server.
	awaitPeriod = time.Second
	// awaitReason is how long one that answers may refuse: while it starts, it
	// does not know yet what anybody may do.
	awaitReason = 15 * time.Second
)

// await tries until an API server is there: one that ends and comes back would
// otherwise find replicas that wait longer and longer to be started again.
func await(ctx context.Context, try func() error) error {
	log := logr.FromContextOrDiscard(ctx)
	began := time.Now()
	for told := ""; ; {
		err := try()
		if err == nil || refused(err) && time.Since(began) > awaitReason {
			return err
		}
		if told != err.Error() {
			told = err.Error()
			log.Info("Waiting for an API server", "reason", told)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(awaitPeriod):
		}
	}
}

// refused reports whether an API server answers, and will not do what is asked.
func refused(err error) bool {
	return apierrors.IsUnauthorized(err) || apierrors.IsForbidden(err) || apierrors.IsNotFound(err) || apierrors.IsBadRequest(err) || apierrors.IsInvalid(err)
}
