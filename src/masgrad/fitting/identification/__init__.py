"""What the data determine: rank, separation, and checks of rows and of Hessians."""
