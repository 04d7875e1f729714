"""Work that is split over the workers of a Dask cluster."""
