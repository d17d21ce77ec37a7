package fabric

import "context"

// Keep runs the keeper until ctx ends.
func (f *Fabric) Keep(ctx context.Context) error {
	<-ctx.Done()
	return nil
}
