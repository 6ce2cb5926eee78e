"""Where rows are stored: in memory, in blocks on disk, in blocks on a Dask cluster."""
